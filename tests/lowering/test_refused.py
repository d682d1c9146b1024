"""What the vendor rung cannot compute is refused by name, before anything runs."""

import inspect
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tare.errors import Unsupported
from tare.lowering.capture import capture
from tare.lowering.gradients import add_backward
from tare.lowering.handlers import HANDLERS
from tare.lowering.step import Step

IMAGES = torch.randn(4, 6, 20, 20)
ROWS = torch.randn(4, 6)
CLASSES = torch.tensor([0, 1, 2, 3])


class Calls(nn.Module):  # type: ignore[misc]
    """A layer with a weight, and a function of its result and the other tensors."""

    def __init__(self, function: Callable[..., Any], layer: nn.Module) -> None:
        super().__init__()
        self.function, self.layer = function, layer
        self.register_buffer("whole", torch.arange(20).reshape(4, 5))

    def forward(self, x: Any, *others: Any) -> Any:
        return self.function(self, self.layer(x), *others)


def captured(function: Callable[..., Any], *tensors: torch.Tensor, targets: int = 0) -> Step:
    layer = nn.Linear(6, 5) if tensors[0].dim() == 2 else nn.Conv2d(6, 4, 1)
    step = Step("f32", channels_last=False)
    capture(Calls(function, layer), tensors, step, targets=targets)
    return step


@pytest.mark.parametrize("name", HANDLERS)
def test_a_handler_takes_the_arguments_of_its_operator_by_name(name: str) -> None:
    arguments = {a.name for a in operator.attrgetter(name)(torch.ops)._schema.arguments}
    arguments = {"step_" if argument == "step" else argument for argument in arguments}
    taken = inspect.signature(HANDLERS[name]).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        # What a rule of ours adds, such as the name of an activation, is bound beforehand.
        assert arguments <= {parameter.name for parameter in taken}
    needed = {p.name for p in taken if p.default is p.empty and p.kind is not p.VAR_KEYWORD}
    assert needed - {"step"} <= arguments


REFUSED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "a number added": (lambda _, y: y + 1.0, (ROWS,), "aten.add of a number"),
    "integers added": (lambda m, y: y + m.whole, (ROWS,), "aten.add.Tensor of integers"),
    "to integers": (lambda m, y: m.whole + y, (ROWS,), "aten.add.Tensor of integers"),
    "integers multiplied": (lambda m, y: y * m.whole, (ROWS,), "aten.mul.Tensor of integers"),
    "an empty piece": (lambda _, y: y[:, 3:2], (ROWS,), "aten.slice that is empty"),
    "no tensor": (lambda _, y: (y, 3), (ROWS,), "no tensor"),
    "a single image": (lambda _, y: functional.max_pool2d(y[0], 2), (IMAGES,), "operator for aten.select"),
    "classes that are shares": (
        lambda _, y, t: functional.cross_entropy(y, t), (ROWS, torch.rand(4, 5).softmax(1)), "one class a row",
    ),
    "classes to be ignored": (
        lambda _, y, t: functional.cross_entropy(y, t), (ROWS, torch.tensor([0, -100, 1, 2])), "ignored",
    ),
    "integers as a target": (
        lambda _, y, t: functional.mse_loss(y, t), (ROWS, torch.ones(4, 5).long()), "integers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_computed_is_refused_by_name(name: str) -> None:
    function, tensors, named = REFUSED[name]
    with pytest.raises(Unsupported, match=named):
        captured(function, *tensors, targets=len(tensors) - 1)


def test_classes_of_which_none_is_ignored_are_taken() -> None:
    step = captured(lambda _, y, t: functional.cross_entropy(y, t.view(-1)), ROWS, CLASSES, targets=1)
    assert [op.kind for op in step.ops] == ["linear", "cross_entropy"]


class Last(nn.Module):  # type: ignore[misc]
    """A loss of an LSTM's last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5)

    def forward(self, x: Any, target: Any) -> Any:
        return functional.mse_loss(self.lstm(x)[1][0], target)


class Widest(nn.Module):  # type: ignore[misc]
    """A loss of maxima over windows whose places no byte can count."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 4, 1)

    def forward(self, x: Any, target: Any) -> Any:
        return functional.mse_loss(functional.max_pool2d(self.conv(x), (16, 17)), target)


@pytest.mark.parametrize(
    ("module", "tensors", "named"),
    [
        (Last(), (torch.randn(3, 4, 6), torch.randn(1, 4, 5)), "lstm's last state"),
        (Widest(), (IMAGES, torch.randn(4, 4, 1, 1)), "max_pool over more than 256 pixels"),
    ],
)
def test_gradients_that_cannot_be_computed(module: Any, tensors: Any, named: str) -> None:
    step = Step("f32", channels_last=False)
    capture(module, tensors, step, targets=1)
    with pytest.raises(Unsupported, match=named):
        add_backward(step)


def test_under_autocast_every_input_is_cast_but_the_target() -> None:
    class Two(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 5), nn.Linear(6, 5)

        def forward(self, x: Any, y: Any, target: Any) -> Any:
            return functional.mse_loss(self.a(x) + self.b(y), target)

    step = Step("bf16", channels_last=False)
    capture(Two(), (ROWS, ROWS.clone(), torch.randn(4, 5)), step, targets=1)
    assert [op.inputs["x"].name for op in step.ops if op.kind == "cast"] == ["input0", "input1"]
