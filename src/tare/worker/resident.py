"""What a prepared program holds on its device between steps, by module: a trace began later and cannot tell."""

from collections.abc import Iterable
from typing import Any

# Of a model of very many, the largest are named.
MOST_MODULES = 100
Held = tuple[str, Any]


def resident_bytes(program: Any) -> dict[str, Any]:
    """Bytes of weights (with buffers) and of optimizer state, in all and by `modules`; empty for a program that is
    no torch model."""
    model: Any = getattr(program, "model", None)
    if not (hasattr(model, "named_parameters") and hasattr(model, "named_buffers")):
        return {}
    device = program.device.type
    classes = {path: _class(module) for path, module in model.named_modules()}
    tensors = (*model.named_parameters(), *model.named_buffers())
    named = [(_label(name.rpartition(".")[0], classes), tensor) for name, tensor in tensors]
    modules = {"weights": by_module(named, device)}
    optimizer = getattr(program, "optimizer", None)
    if optimizer is not None:
        states = getattr(optimizer, "state", {}).items()
        owner = {id(tensor): name for name, tensor in named}
        held = [(owner.get(id(key), "no module"), value) for key, state in states for value in state.values()]
        modules["optimizer state"] = by_module(held, device)
    sums = {kind: sum(found.values()) for kind, found in modules.items()}
    return {**sums, "device": device, "modules": {kind: _largest(found) for kind, found in modules.items()}}


def by_module(held: Iterable[Held], device: str) -> dict[str, int]:
    """Of tensors on the device, each storage once, for its first owner; numbers, and tensors elsewhere (an
    optimizer's counters of steps), take nothing there."""
    found: dict[str, int] = {}
    seen = set()
    for name, value in held:
        if not hasattr(value, "untyped_storage") or value.device.type != device:
            continue
        storage = value.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            found[name] = found.get(name, 0) + storage.nbytes()
    return found


def _label(path: str, classes: dict[str, str]) -> str:
    """`layer1.0.conv1 (Conv2d)`; torch.compile wraps a model into another."""
    name = path.removeprefix("_orig_mod").removeprefix(".")
    return f"{name} ({classes[path]})" if name else classes[path]


def _class(module: Any) -> str:
    """A scripted module is of no class of its own, and remembers whose it was."""
    return str(getattr(module, "original_name", type(module).__name__))


def _largest(found: dict[str, int]) -> dict[str, int]:
    return dict(sorted(found.items(), key=lambda one: -one[1])[:MOST_MODULES])
