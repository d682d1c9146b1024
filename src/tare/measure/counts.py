"""What one step does, counted: operators, bytes copied, synchronisations, allocations.

No clock is involved, so that two versions can be compared exactly, on any machine."""

from collections.abc import Callable
from typing import Any

# Operators that hand a value to the host, and so wait for the device; on a CPU they are counted all the same. In
# inference mode the composite ones (item, to) come as they are, elsewhere as what they are made of.
SYNCHRONISING = frozenset(
    {"_local_scalar_dense", "item", "nonzero", "equal", "masked_select", "is_nonzero", "_unique2", "unique_dim"}
)
# Operators that copy always, and those that copy unless the tensor is already as it should be.
COPYING = frozenset({"_to_copy", "copy_", "clone", "_pin_memory", "copy"})
MAYBE_COPYING = frozenset({"to", "contiguous", "pin_memory", "reshape", "flatten", "type_as"})


def count_step(step: Callable[[], Any], device: Any) -> dict[str, int]:
    """The counts of one more step. Only for steps whose operators pass through PyTorch's dispatcher one by one: a
    compiled or captured step would hide them, or be compiled anew."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):  # type: ignore[misc]
        operators = synchronisations = bytes_copied = 0

        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = operator(*args, **(kwargs or {}))
            name = operator.overloadpacket.__name__
            self.operators += 1
            self.synchronisations += name in SYNCHRONISING
            if isinstance(result, torch.Tensor) and (
                name in COPYING or (name in MAYBE_COPYING and not _shares(result, args[0]))
            ):
                self.bytes_copied += result.numel() * result.element_size()
            return result

    before = _allocations(torch, device)
    with Counting() as seen:
        step()
    after = _allocations(torch, device)
    counts = {
        "operators": seen.operators,
        "synchronisations": seen.synchronisations,
        "bytes_copied": seen.bytes_copied,
    }
    if before is not None and after is not None:
        counts["allocations"] = after - before
    return counts


def _shares(result: Any, given: Any) -> bool:
    return bool(result.untyped_storage().data_ptr() == given.untyped_storage().data_ptr())


def _allocations(torch: Any, device: Any) -> int | None:
    """How often the device's allocator was asked so far; None where it does not say."""
    if device.type != "cuda":
        return None
    return int(torch.cuda.memory_stats(device).get("allocation.all.allocated", 0))
