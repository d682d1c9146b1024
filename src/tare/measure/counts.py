"""Counts of one step: operators, bytes copied, synchronisations, allocations.

No clock is involved, so two versions can be compared exactly, on any machine."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

# Operators that return a value to the host, and so wait for the device; on a CPU they are counted as well. In
# inference mode composite operators (item, to) arrive whole, elsewhere as their parts.
SYNCHRONISING = frozenset(
    {"_local_scalar_dense", "item", "nonzero", "equal", "masked_select", "is_nonzero", "_unique2", "unique_dim"}
)
# Operators that always copy, and those that copy unless the tensor already has the wanted form.
COPYING = frozenset({"_to_copy", "copy_", "clone", "_pin_memory", "copy"})
MAYBE_COPYING = frozenset({"to", "contiguous", "pin_memory", "reshape", "flatten", "type_as"})


class StepCounts(NamedTuple):
    """Figures by the names of their metrics, and how often each operator was called."""

    figures: dict[str, int]
    operators: dict[str, int]


def count_step(step: Callable[[], Any], device: Any) -> StepCounts:
    """Runs one step and counts. Only for steps whose operators pass through PyTorch's dispatcher one by one: a
    compiled or captured step would hide them, or be compiled again."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class StepCounter(TorchDispatchMode):  # type: ignore[misc]
        synchronisations = bytes_copied = 0

        def __init__(self) -> None:
            super().__init__()
            self.calls: Counter[str] = Counter()

        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = operator(*args, **(kwargs or {}))
            name = operator.overloadpacket.__name__
            self.calls[f"{operator.namespace}::{name}"] += 1
            self.synchronisations += name in SYNCHRONISING
            if isinstance(result, torch.Tensor) and (
                name in COPYING or (name in MAYBE_COPYING and not _share_storage(result, args[0]))
            ):
                self.bytes_copied += result.numel() * result.element_size()
            return result

    before = _allocations(torch, device)
    with StepCounter() as counting:
        step()
    after = _allocations(torch, device)
    counts = {
        "operators": counting.calls.total(),
        "synchronisations": counting.synchronisations,
        "bytes_copied": counting.bytes_copied,
    }
    if before is not None and after is not None:
        counts["allocations"] = after - before
    return StepCounts(counts, dict(counting.calls))


def _share_storage(result: Any, given: Any) -> bool:
    return bool(result.untyped_storage().data_ptr() == given.untyped_storage().data_ptr())


def _allocations(torch: Any, device: Any) -> int | None:
    """Requests to the device's allocator so far; None where it does not count them."""
    if device.type != "cuda":
        return None
    return int(torch.cuda.memory_stats(device).get("allocation.all.allocated", 0))
