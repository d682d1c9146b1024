"""What one step does, counted: operators, bytes copied, synchronisations, allocations, kernels.

No clock is involved, so that two versions can be compared exactly, on any machine."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

# Operators that hand a value to the host, and so wait for the device; on a CPU they are counted all the same. In
# inference mode the composite ones (item, to) come as they are, elsewhere as what they are made of.
SYNCHRONISING = frozenset(
    {"_local_scalar_dense", "item", "nonzero", "equal", "masked_select", "is_nonzero", "_unique2", "unique_dim"}
)
# Operators that copy always, and those that copy unless the tensor is already as it should be.
COPYING = frozenset({"_to_copy", "copy_", "clone", "_pin_memory", "copy"})
MAYBE_COPYING = frozenset({"to", "contiguous", "pin_memory", "reshape", "flatten", "type_as"})
# What a profiler reports on the device's side that is no kernel.
NO_KERNELS = ("Memcpy", "Memset", "ProfilerStep", "Context Sync", "Event Sync", "Stream Sync")


class StepCounts(NamedTuple):
    """Figures by the names of their metrics, and how often each operator was called."""

    figures: dict[str, int]
    operators: dict[str, int]


def count_step(step: Callable[[], Any], device: Any) -> StepCounts:
    """The counts of one more step. Only for steps whose operators pass through PyTorch's dispatcher one by one: a
    compiled or captured step would hide them, or be compiled anew."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):  # type: ignore[misc]
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
                name in COPYING or (name in MAYBE_COPYING and not _shares(result, args[0]))
            ):
                self.bytes_copied += result.numel() * result.element_size()
            return result

    before = _allocations(torch, device)
    with Counting() as seen:
        step()
    after = _allocations(torch, device)
    counts = {
        "operators": seen.calls.total(),
        "synchronisations": seen.synchronisations,
        "bytes_copied": seen.bytes_copied,
    }
    if before is not None and after is not None:
        counts["allocations"] = after - before
    return StepCounts(counts, dict(seen.calls))


def count_kernels(step: Callable[[], Any], synchronize: Callable[[], None]) -> dict[str, int]:
    """How often one more step launches each kernel of a CUDA device, by the profiler. A process that it has looked
    at is slower ever after: this comes last in it."""
    from torch.profiler import ProfilerActivity

    from tare.measure.profiler import recording

    # The profiler may lose kernels of the first step that it sees.
    with recording([ProfilerActivity.CUDA], warmup=1, active=1) as seen:
        for _ in range(2):
            step()
            synchronize()
            seen.step()
    # The profiler's own list: torch's view of it takes a second for a step of a few thousand operators.
    return kernels_among(seen.profiler.kineto_results.events())


def kernels_among(events: Iterable[Any]) -> dict[str, int]:
    """The kernels among a profiler's events, by name."""
    names = (
        str(event.name())
        for event in events
        if str(event.device_type()).endswith("CUDA") and not event.is_user_annotation()
    )
    return dict(Counter(name for name in names if not name.startswith(NO_KERNELS)))


def _shares(result: Any, given: Any) -> bool:
    return bool(result.untyped_storage().data_ptr() == given.untyped_storage().data_ptr())


def _allocations(torch: Any, device: Any) -> int | None:
    """How often the device's allocator was asked so far; None where it does not say."""
    if device.type != "cuda":
        return None
    return int(torch.cuda.memory_stats(device).get("allocation.all.allocated", 0))
