"""Interception: what a step calls, by torch's own hooks. It slows the step down, so nothing is timed under it.

The registries, which say what there is to be called:

- Python API: `torch.overrides.get_overridable_functions`, the public functions and methods that a subclass of
  Tensor can override, which is what a TorchFunctionMode sees. A function called by another one is not seen (torch
  disables the mode there), so this is the surface that the model's own code uses.
- ATen: every operator name of the `aten` namespace that the dispatcher knows. Overloads count as one; an in-place
  operator has a name of its own.
- Core ATen: those of them with an overload tagged `core`, the set that torch.export lowers to. It is functional,
  so an in-place call counts for its functional operator.
"""

from collections.abc import Callable
from typing import Any

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


class ApiCalls(TorchFunctionMode):  # type: ignore[misc]
    """Collects the Python functions called while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[Any] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(func)
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):  # type: ignore[misc]
    """Passes the operators that run while it is active to `call`, which runs them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not isinstance(func, torch._ops.OpOverload):
            # A higher-order operator (flex attention) has no schema.
            return func(*args, **(kwargs or {}))
        if func._schema.name in QUERIES:
            return NotImplemented
        return self.call(func, args, kwargs or {})

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        raise NotImplementedError


class OperatorCalls(Operators):
    """Passes every operator that runs while it is active to `on_call`, composite ones as well as their parts."""

    def __init__(self, on_call: Callable[[Any, Any], None]) -> None:
        super().__init__()
        self._on_call = on_call

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        # Without autograd a composite operator arrives whole, and is decomposed here.
        with self:
            result = func.decompose(*args, **kwargs)
        if result is NotImplemented:
            result = func(*args, **kwargs)
        self._on_call(func, result)
        return result


def api_calls(step: Callable[[], object]) -> set[str]:
    """Names of the Python functions that a step calls."""
    with ApiCalls() as calls:
        step()
    return {name for func in calls.seen if (name := api_name(func))}


def operator_calls(step: Callable[[], object]) -> set[str]:
    """Names of the operators that a step runs, with their namespace and without their overload."""
    seen: set[str] = set()
    with OperatorCalls(lambda func, _: seen.add(str(func._schema.name))):
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
