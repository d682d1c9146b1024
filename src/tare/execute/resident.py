"""What a prepared program holds on its device between steps: a trace cannot tell, for it began later."""

from collections.abc import Iterable
from typing import Any


def resident_bytes(program: Any) -> dict[str, int]:
    """Bytes of weights (with buffers) and of optimizer state; empty for a program that is no torch model."""
    model: Any = getattr(program, "model", None)
    if not (hasattr(model, "parameters") and hasattr(model, "buffers")):
        return {}
    found = {"weights": _bytes([*model.parameters(), *model.buffers()])}
    optimizer = getattr(program, "optimizer", None)
    if optimizer is not None:
        states = getattr(optimizer, "state", {}).values()
        found["optimizer state"] = _bytes(value for state in states for value in state.values())
    return found


def _bytes(values: Iterable[Any]) -> int:
    """Of tensors on a device, each storage once; numbers and host tensors (step counters) take none there."""
    storages = {}
    for value in values:
        if hasattr(value, "untyped_storage") and value.device.type != "cpu":
            storage = value.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())
