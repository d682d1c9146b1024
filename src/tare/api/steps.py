"""A callable as the sampler and the audit take it, and the device that it works on."""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tare.errors import BadInput, quote
from tare.measure.clock import Clock, WallClock
from tare.measure.devices import device_types, make_clock
from tare.rungs.base import Program


class CallableProgram(Program):
    """A user's callable, with its arguments bound. It runs as it is: with gradients, if the user has not disabled
    them."""

    def __init__(self, step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not callable(step):
            raise BadInput(f"a step is a callable, not {quote(step)}")
        self.step = partial(step, *args, **kwargs) if args or kwargs else step
        self.name = step_name(step)
        self._reached = (step, getattr(step, "__self__", None), args, kwargs)

    def has_nan(self, result: Any) -> bool:
        # Reads every number on its device, so that it returns when they exist.
        return any(bool(tensor.isnan().any()) for tensor in tensors_in(result) if tensor.is_floating_point())

    def find_device(self, given: Any, result: Any) -> Any:
        """The torch device whose work a clock must wait for: as given, or that of an argument, a parameter or the
        result that is not on the CPU; where there is none, CUDA's if this process uses it. None without torch."""
        if given is not None:
            return _given_device(given)
        torch: Any = sys.modules.get("torch")
        if torch is None:
            return None
        for tensor in tensors_in((self._reached, result)):
            if tensor.device.type not in ("cpu", "meta"):
                return tensor.device
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("cpu")


def step_name(step: Callable[..., Any]) -> str:
    if isinstance(step, partial):
        return step_name(step.func)
    return str(getattr(step, "__qualname__", type(step).__qualname__)).rpartition("<locals>.")[2]


def clock_of(device: Any) -> Clock:
    """`device` is None in a process without torch."""
    return WallClock(lambda: None, overlaps=False) if device is None else make_clock(device)


def tensors_in(values: Any) -> Iterable[Any]:
    """The tensors in nested containers and modules; nothing in a process without torch."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    from torch.utils._pytree import tree_leaves

    for leaf in tree_leaves(values):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif isinstance(leaf, torch.nn.Module):
            yield from leaf.parameters()
        elif isinstance(leaf, partial):
            yield from tensors_in((leaf.func, leaf.args, leaf.keywords))


def _given_device(given: Any) -> Any:
    import torch

    try:
        device = torch.device(given)
    except (RuntimeError, TypeError):
        device = None
    valid = device_types()
    if device is None or device.type not in valid:
        raise BadInput(f"device {quote(given)} is not here (valid: {', '.join(valid)})")
    return device
