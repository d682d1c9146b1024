"""Counting a step's FLOPs and bytes: the formulas of tare.measure.flops, and the tensors of every operator.

Operators that are likely to compute much and have no formula are listed. Bytes are those of the inputs and
outputs of each operator: every tensor once, a broadcast one at its true size, views not at all.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tare.records.work import OperatorWork, Work

if TYPE_CHECKING:
    from tare.measure.interception import OperatorCall

# Words in the names of operators that do many FLOPs per byte. If one has no formula, the count is a lower bound.
HEAVY = re.compile(
    r"\w*mm|matmul|linear|trilinear|conv(\dd)?|convolution|rnn|lstm|gru|attention|encoder|fft|linalg|cholesky|svd"
    r"|einsum|cdist"
)
# A norm is not a product, whatever else its name contains.
LIGHT = "norm"
# Operators that allocate or rename memory without touching it.
FREE = re.compile(
    r"^aten::(empty|new_empty|detach|alias|lift_fresh|_unsafe_view|resize_|set_|_local_scalar_dense)"
)
PRECISIONS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}


def count_work(step: Callable[[], Any]) -> Work:
    """Runs a step once and counts its work. It is slow: nothing is timed under it."""
    import torch
    from torch.multiprocessing.reductions import StorageWeakRef
    from torch.utils._pytree import tree_leaves

    from tare.measure.flops import counted_calls

    calls: Counter[tuple[str, int, int, str]] = Counter()
    uncounted: set[str] = set()
    # Weak references keep the identity of a freed storage from being reused.
    made: set[Any] = set()
    read: dict[Any, int] = {}
    written: dict[Any, int] = {}

    def tensors(values: Any) -> Iterable[Any]:
        return (leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor))

    def note(call: "OperatorCall", flops: int | None) -> None:
        name = call.func._schema.name
        if FREE.match(name) or call.func.is_view:
            return
        before = {StorageWeakRef(t.untyped_storage()): t for t in tensors((call.args, call.kwargs))}
        after = {StorageWeakRef(t.untyped_storage()): t for t in tensors(call.result)}
        changed = list(tensors(_changed(call)))
        touched = {**before, **after}
        if flops is None and is_heavy(name):
            uncounted.add(name)
        size = sum(_bytes(t) for t in touched.values()) + sum(_bytes(t) for t in changed)
        if size:
            calls[name, flops or 0, size, _precision(before.values())] += 1
        for key, tensor in before.items():
            if key not in made and key not in read:
                read[key] = _bytes(tensor)
        for tensor in changed:
            key = StorageWeakRef(tensor.untyped_storage())
            if key not in made:
                written[key] = _bytes(tensor)
        made.update(key for key in after if key not in before)

    with counted_calls(note):
        result = step()
    for tensor in tensors(result):
        written.setdefault(StorageWeakRef(tensor.untyped_storage()), _bytes(tensor))
    return Work(
        operators=[
            OperatorWork(name=name, count=count, flops=flops, bytes=size, precision=precision)
            for (name, flops, size, precision), count in calls.items()
        ],
        read=sum(read.values()),
        written=sum(written.values()),
        uncounted=sorted(uncounted),
    )


def is_heavy(name: str) -> bool:
    """Whether an operator of this name multiplies matrices or the like."""
    words = re.split("[_:.]+", name)
    return LIGHT not in words and any(HEAVY.fullmatch(word) for word in words)


def _bytes(tensor: Any) -> int:
    """The bytes that reading it touches: a dimension of stride zero is one repeated element."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= size if stride or size == 0 else 1
    return int(elements * tensor.element_size())


def _changed(call: "OperatorCall") -> list[Any]:
    """The arguments that the operator writes to."""
    arguments = enumerate(call.func._schema.arguments)
    written = [(i, a.name) for i, a in arguments if a.alias_info is not None and a.alias_info.is_write]
    return [call.args[i] if i < len(call.args) else call.kwargs.get(name) for i, name in written]


def _precision(inputs: Iterable[Any]) -> str:
    for tensor in inputs:
        if tensor.is_floating_point():
            return PRECISIONS.get(str(tensor.dtype).removeprefix("torch."), "other")
    return "other"
