"""The batches that a case rotates through.

A step that is timed on one batch alone could keep its result. So every case has a few batches of the same shapes,
the same on every rung, and each timed block runs on another of them than the block before.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tare.workloads.base import SEED, Batch, Workload

if TYPE_CHECKING:
    import torch

# An odd number: what a program does in every second step does not always meet the same batch.
BATCHES = 3


def make_batches(workload: Workload, batch: int, sizes: Mapping[str, int]) -> list[Batch]:
    """The batches of a case on the CPU; the first is the workload's own. Where the workload gives the same batch
    for another seed (a constant, a file), or one of other shapes, the others are derived from the first."""
    first = workload.inputs(batch, sizes)
    return [first, *(_other(workload, batch, sizes, first, variant) for variant in range(1, BATCHES))]


def _other(workload: Workload, batch: int, sizes: Mapping[str, int], first: Batch, variant: int) -> Batch:
    import torch
    from torch.utils import _pytree as pytree

    other = workload.inputs(batch, sizes, variant)
    leaves, spec = pytree.tree_flatten(tuple(first))
    other_leaves, other_spec = pytree.tree_flatten(tuple(other))
    if spec == other_spec and all(map(_alike, leaves, other_leaves)) and not _equal(first.args, other.args):
        # What is no tensor is part of the program, and stays.
        return Batch(*pytree.tree_unflatten(
            [new if isinstance(new, torch.Tensor) else old for old, new in zip(leaves, other_leaves, strict=True)],
            spec,
        ))  # fmt: skip
    generator = torch.Generator().manual_seed(SEED + variant)
    derived = [_derive(leaf, variant, generator) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    return Batch(*pytree.tree_unflatten(derived, spec))


def _alike(first: Any, other: Any) -> bool:
    import torch

    if not isinstance(first, torch.Tensor):
        return not isinstance(other, torch.Tensor)
    return (
        isinstance(other, torch.Tensor)
        and (first.shape, first.dtype, first.layout) == (other.shape, other.dtype, other.layout)
        and first.stride() == other.stride()
    )


def _equal(first: Any, other: Any) -> bool:
    import torch
    from torch.utils import _pytree as pytree

    pairs = zip(pytree.tree_leaves(first), pytree.tree_leaves(other), strict=True)
    return all(torch.equal(a, b) for a, b in pairs if isinstance(a, torch.Tensor))


def _derive(tensor: "torch.Tensor", variant: int, generator: "torch.Generator") -> "torch.Tensor":
    """Another tensor of this kind. Numbers get noise of their own spread; a constant gets noise of its own size,
    since zeros are special in every layer. Whole numbers may be indices, so that they only change places."""
    import torch

    tensor = tensor.detach()
    if tensor.is_floating_point():
        spread = float(tensor.std(correction=0)) or float(tensor.abs().max()) or 1.0
        return tensor + spread * torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
    return tensor.roll(variant, 0) if tensor.dim() and not tensor.is_complex() else tensor.clone()
