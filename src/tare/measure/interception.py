"""Interception: what a step calls, by torch's own hooks. It slows the step down, so nothing is timed under it.

Counts involve no clock, so two versions can be compared exactly, on any machine.

The registries, which say what there is to be called:

- Python API: `torch.overrides.get_overridable_functions`, the public functions and methods that a subclass of
  Tensor can override, which is what a TorchFunctionMode sees. A function called by another one is not seen (torch
  disables the mode there), so this is the surface that the model's own code uses.
- ATen: every operator name of the `aten` namespace that the dispatcher knows. Overloads count as one; an in-place
  operator has a name of its own.
- Core ATen: those of them with an overload tagged `core`, the set that torch.export lowers to. It is functional,
  so an in-place call counts for its functional operator.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode, get_overridable_functions, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

ATEN = "aten::"
# Queries of a tensor's properties, which fake tensors dispatch as operators; torch's own counter ignores them too.
QUERIES = frozenset({
    "aten::size", "aten::sym_size", "aten::stride", "aten::sym_stride", "aten::numel", "aten::sym_numel",
    "aten::dim", "aten::storage_offset", "aten::sym_storage_offset", "aten::is_contiguous",
    "aten::sym_is_contiguous", "aten::is_strides_like_format", "aten::is_non_overlapping_and_dense",
    "prim::layout", "prim::device",
})  # fmt: skip


# Operators that return a value to the host, and so wait for the device; on a CPU they are counted as well. In
# inference mode composite operators (item, to) arrive whole, elsewhere as their parts.
SYNCHRONISING = frozenset(
    {"_local_scalar_dense", "item", "nonzero", "equal", "masked_select", "is_nonzero", "_unique2", "unique_dim"}
)
# Operators that always copy, and those that copy unless the tensor already has the wanted form.
COPYING = frozenset({"_to_copy", "copy_", "clone", "_pin_memory", "copy"})
MAYBE_COPYING = frozenset({"to", "contiguous", "pin_memory", "reshape", "flatten", "type_as"})


class OperatorCall(NamedTuple):
    """A call of an operator that has run; of a composite one, after its parts."""

    func: Any
    args: Any
    kwargs: Any
    result: Any
    composite: bool


class OperatorCalls(TorchDispatchMode):  # type: ignore[misc]
    """Passes every operator that runs while it is active to `on_call`. Without autograd a composite operator
    (linear, conv2d) arrives whole; it is run as its parts if `decomposes` says so."""

    def __init__(self, on_call: Callable[[OperatorCall], None], decomposes: Callable[[Any], bool]) -> None:
        super().__init__()
        self._on_call, self._decomposes = on_call, decomposes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            # A higher-order operator (flex attention) has no schema.
            return func(*args, **kwargs)
        if func._schema.name in QUERIES:
            return NotImplemented
        result = NotImplemented
        if self._decomposes(func):
            with self:
                result = func.decompose(*args, **kwargs)
        composite = result is not NotImplemented
        if not composite:
            result = func(*args, **kwargs)
        self._on_call(OperatorCall(func, args, kwargs, result, composite))
        return result


class ApiCalls(TorchFunctionMode):  # type: ignore[misc]
    """Collects the Python functions called while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[Any] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(func)
        return func(*args, **(kwargs or {}))


class StepCounts(NamedTuple):
    """Figures by the names of their metrics, and how often each operator was called."""

    figures: dict[str, int]
    operators: dict[str, int]


def count_step(step: Callable[[], Any], device: Any) -> StepCounts:
    """Runs one step and counts. Only for steps whose operators pass through PyTorch's dispatcher one by one: a
    compiled or captured step would hide them, or be compiled again."""
    calls: Counter[str] = Counter()
    synchronisations = bytes_copied = 0

    def count(call: OperatorCall) -> None:
        nonlocal synchronisations, bytes_copied
        name = call.func.overloadpacket.__name__
        calls[call.func._schema.name] += 1
        synchronisations += name in SYNCHRONISING
        copies = name in COPYING or (name in MAYBE_COPYING and _storage(call.result) != _storage(call.args[0]))
        if copies and isinstance(call.result, torch.Tensor):
            bytes_copied += call.result.numel() * call.result.element_size()

    before = _allocations(device)
    with OperatorCalls(count, decomposes=lambda _: False):
        step()
    figures = {"operators": calls.total(), "synchronisations": synchronisations, "bytes_copied": bytes_copied}
    if device.type == "cuda":
        figures["allocations"] = _allocations(device) - before
    return StepCounts(figures, dict(calls))


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _allocations(device: Any) -> int:
    """Requests to the allocator of a CUDA device so far."""
    return int(torch.cuda.memory_stats(device).get("allocation.all.allocated", 0)) if device.type == "cuda" else 0


def api_calls(step: Callable[[], object]) -> set[str]:
    """Names of the Python functions that a step calls."""
    with ApiCalls() as calls:
        step()
    return {name for func in calls.seen if (name := api_name(func))}


def operator_calls(step: Callable[[], object]) -> set[str]:
    """Names of the operators that a step runs, with their namespace and without their overload; of composite
    operators also their parts."""
    seen: set[str] = set()
    with OperatorCalls(lambda call: seen.add(str(call.func._schema.name)), decomposes=lambda _: True):
        step()
    return seen


def api_registry() -> list[str]:
    functions = {func for group in get_overridable_functions().values() for func in group}
    return sorted({name for func in functions if (name := api_name(func))})


def aten_registry() -> list[str]:
    names = torch._C._dispatch_get_all_op_names()
    return sorted({name.partition(".")[0] for name in names if name.startswith(ATEN)})


def core_registry() -> list[str]:
    return [name for name in aten_registry() if _is_core(name)]


def core_of(operators: set[str], core: set[str]) -> set[str]:
    """The core operators among those called; `add_` counts for `add`."""
    return {found for name in operators for found in (name, name.removesuffix("_")) if found in core}


def api_name(func: Any) -> str | None:
    name = resolve_name(func)
    return str(name) if name else getattr(func, "__name__", None)


def _is_core(name: str) -> bool:
    packet = getattr(torch.ops.aten, name.removeprefix(ATEN), None)
    return packet is not None and any(torch.Tag.core in getattr(packet, o).tags for o in packet.overloads())
