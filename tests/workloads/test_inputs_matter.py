"""The output of a workload depends on every input by far more than parity tolerates. Otherwise a wrong rung would
pass the parity check."""

import copy
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from zoo import zoo_names

from tare.measure.parity import TOLERANCE
from tare.workloads import Workload, get_workload
from tare.workloads.base import SEED

# All inputs together must exceed the tolerance of bfloat16, each single one that of float32.
MOVES, MATTERS = TOLERANCE["bf16"], 10 * TOLERANCE["fp32"]
# Inputs that have little effect by their nature.
LITTLE = {
    "pyhpc_equation_of_state": "the density of sea water is nearly that of water",
    "pytorch_stargan": "an untrained discriminator cannot tell the domains apart",
    "pyhpc_turbulent_kinetic_energy": "wind acts on the uppermost level alone, and vertical transport is slow",
}


def leaves(output: Any) -> list[torch.Tensor]:
    tensors = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    return [leaf.detach().double() for leaf in tensors]


def change(before: list[torch.Tensor], after: list[torch.Tensor]) -> float:
    """The largest relative change of any tensor. A different number of boxes is a change of 1."""
    if [leaf.shape for leaf in before] != [leaf.shape for leaf in after]:
        return 1.0
    sizes = [(float((a - b).norm()), float(a.norm())) for a, b in zip(before, after, strict=True)]
    return max(off / size if size else off for off, size in sizes)


def run(workload: Workload, model: Any, args: Any, target: Any) -> list[torch.Tensor]:
    """Runs copies: a step may change its model, or a cache among its inputs."""
    own, args = copy.deepcopy(model), pytree.tree_map(torch.clone, args)
    if not model.training:
        with torch.inference_mode():
            return leaves(own(*args))
    return leaves(workload.loss(own(*args), target))


@pytest.mark.parametrize("name", zoo_names())
def test_output_depends_on_every_input(name: str) -> None:
    workload = get_workload(name)
    sizes = workload.smoke_sizes
    model, batch = workload.build(sizes).eval(), workload.inputs(workload.smoke_batch, sizes)
    torch.manual_seed(SEED + 2)
    other = workload.definition.inputs(workload.smoke_batch, **sizes)
    drawn = [i for i, arg in enumerate(batch.args) if not torch.equal(arg, other.args[i])]
    before = run(workload, model, batch.args, None)
    seen = {}
    for i in drawn:
        args = [*batch.args[:i], other.args[i], *batch.args[i + 1 :]]
        seen[i] = change(before, run(workload, model, args, None))
    assert max(seen.values()) > MOVES, f"{name} gives the same whatever it gets: {seen}"
    little = [i for i, moved in seen.items() if moved <= MATTERS]
    if little and name not in LITTLE:
        assert workload.trains, f"inputs {little} do not matter: {seen}"
        model.train()
        args = [other.args[i] if i in little else arg for i, arg in enumerate(batch.args)]
        before = run(workload, model, batch.args, batch.target)
        moved = change(before, run(workload, model, args, batch.target))
        assert moved > MATTERS, f"inputs {little} matter neither at inference nor in training: {seen}, {moved}"
