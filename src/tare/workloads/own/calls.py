"""What a user's object is (a module, its class, a factory, a whole step), and how it is called."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tare.errors import BadInput
from tare.workloads.base import Batch

if TYPE_CHECKING:
    from torch import nn

DEFAULT_BATCH = 8


def required_parameters(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters without a default; none where Python cannot tell."""
    from torch import nn

    if isinstance(function, nn.Module):
        # A loss may be a module, which takes anything and passes it on.
        function = function.forward
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in kinds]


def is_step(value: Any) -> bool:
    """Whether a user's object is a step and no factory: a function that is called `step`, ends in `_step`, or says
    so by an attribute `tare_step`."""
    from torch import nn

    if not callable(value) or isinstance(value, (type, nn.Module)):
        return False
    name = getattr(value, "__name__", type(value).__name__)
    return bool(getattr(value, "tare_step", name == "step" or name.endswith("_step")))


def build_module(value: Any, name: str) -> "nn.Module":
    """The module that a class, a factory or an instance gives. An instance is copied, since a process may need
    several."""
    import copy

    from torch import nn

    if isinstance(value, nn.Module):
        return copy.deepcopy(value)
    if not callable(value):
        raise BadInput(
            f"{name} is of type {type(value).__name__}: want a torch.nn.Module or a function that makes one"
        )
    if needed := required_parameters(value):
        listed = ", ".join(needed)
        raise BadInput(
            f"{name} needs arguments ({listed}): write a function without parameters that returns the model"
        )
    model = value()
    if not isinstance(model, nn.Module):
        hint = "; if it is a whole step, name it ..._step" if not isinstance(value, type) else ""
        raise BadInput(f"{name}() gives an object of type {type(model).__name__}, not a torch.nn.Module{hint}")
    return model


def call_with_batch(function: Callable[..., Any], batch: int | None) -> Any:
    """Calls a function of inputs with the batch size, if it takes a parameter; None is its own default, or 8."""
    required = required_parameters(function)
    if len(required) > 1:
        raise BadInput(f"{function.__name__} takes at most the batch size, not ({', '.join(required)})")
    if required:
        return function(DEFAULT_BATCH if batch is None else batch)
    return function(batch) if batch is not None and takes_named_batch(function) else function()


def takes_named_batch(function: Callable[..., Any]) -> bool:
    try:
        first = next(iter(inspect.signature(function).parameters), "")
    except (ValueError, TypeError):
        return False
    return first in ("batch", "batch_size", "n")


def as_batch(value: Any, model_names: tuple[str, ...] = ()) -> tuple[Batch, tuple[str, ...]]:
    """A user's inputs as a batch, and the names of the arguments where they are a mapping: a tensor, a tuple of
    arguments, a mapping of arguments, or a pair (arguments, target)."""
    import torch

    if isinstance(value, Batch):
        return value, model_names
    if isinstance(value, torch.Tensor):
        return Batch((value,)), ()
    if isinstance(value, Mapping):
        return Batch(tuple(value.values())), tuple(map(str, value))
    if isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[0], (tuple, Mapping)):
        batch, names = as_batch(value[0])
        return Batch(batch.args, value[1]), names
    if isinstance(value, (tuple, list)) and value:
        return Batch(tuple(value)), ()
    raise BadInput(
        f"the inputs are of type {type(value).__name__}: want a tensor, a tuple, a dict, or (inputs, target)"
    )


def call_by_name(model: "nn.Module", names: tuple[str, ...]) -> "nn.Module":
    """A module that takes by position what the model takes by name."""
    from torch import nn

    class ByName(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: Any) -> Any:
            return self.model(**dict(zip(names, args, strict=True)))

    return ByName() if names else model
