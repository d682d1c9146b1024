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
from tare.rungs.vendor.lowering.capture import capture
from tare.rungs.vendor.lowering.gradients import add_backward
from tare.rungs.vendor.lowering.handlers import HANDLERS
from tare.rungs.vendor.lowering.plan import Step

IMAGES = torch.randn(4, 6, 20, 20)
ROWS = torch.randn(4, 6)
CLASSES = torch.tensor([0, 1, 2, 3])


class Calls(nn.Module):  # type: ignore[misc]
    """A layer with a weight, and a function of its result and the other tensors."""

    def __init__(self, function: Callable[..., Any], layer: nn.Module) -> None:
        super().__init__()
        self.function, self.layer = function, layer
        self.register_buffer("whole", torch.arange(20).reshape(4, 5))
        self.register_buffer("mean", torch.ones(5))
        self.register_buffer("state", torch.zeros(4, 5))
        self.register_buffer("one", torch.tensor(0.5))

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
    "a class that another batch may have": (
        lambda _, y, t: functional.cross_entropy(y, t, ignore_index=4), (ROWS, CLASSES), "ignored",
    ),
    "classes moved": (
        lambda _, y, t: functional.cross_entropy(y, t + 1), (ROWS, CLASSES), "aten.add.Tensor of integers",
    ),
    "integers as a result": (lambda m, y: (y, m.whole), (ROWS,), "a result of integers"),
    "a mean of everything": (lambda _, y: y.mean(dim=None, keepdim=True), (IMAGES,), "aten.mean"),
    "a transposed convolution of one image": (
        lambda m, y: functional.conv_transpose2d(y.view(4, 4, -1), m.layer.weight), (IMAGES,), "a batch of images",
    ),
    "an image longer than any that a convolution reads": (
        lambda m, y: functional.conv_transpose2d(y, m.layer.weight, output_padding=1, dilation=2), (IMAGES,),
        "output padding",
    ),
    "a norm with computed weights": (
        lambda m, y: functional.batch_norm(y, m.mean, m.mean, m.mean + m.mean), (ROWS,), "norm whose weights",
    ),
    "a buffer that grows": (lambda m, y: (m.state.add_(y), y)[1], (ROWS,), "every step changes .state"),
    "a part of a buffer that grows": (
        lambda m, y: (m.state.view(-1).add_(y.view(-1)), y)[1], (ROWS,), "every step changes .state",
    ),
    "a single number": (lambda m, y: (y, torch.sigmoid(m.one)), (ROWS,), "without dimensions"),
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


class Weighing(nn.Module):  # type: ignore[misc]
    """A loss of a layer's result and whatever else its weights are used for."""

    def __init__(self, behind: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.up, self.behind = nn.Linear(6, 6), nn.Conv2d(6, 4, 1), behind

    def forward(self, x: Any, target: Any) -> Any:
        return functional.mse_loss(self.behind(self, x), target)


SQUARE, PIXEL = torch.randn(6, 6), torch.randn(4, 6, 1, 1)
USED: dict[str, tuple[Callable[..., Any], torch.Tensor, str]] = {
    "tied to its transpose": (
        lambda m, x: functional.linear(m.layer(x), m.layer.weight.transpose(0, 1)), SQUARE, "layer.weight",
    ),
    "in a layer and beside it": (lambda m, x: m.layer(x) * m.layer.weight, SQUARE, "layer.weight"),
    "a view as a bias": (
        lambda m, x: functional.linear(x, m.layer.weight, m.layer.bias.view(2, 3).view(-1)), SQUARE, "layer.bias",
    ),
    "a view as a transposed filter": (
        lambda m, x: functional.conv_transpose2d(x, m.layer.weight.view(6, 6, 1, 1)), PIXEL, "layer.weight",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", USED)
def test_a_weight_that_is_used_in_two_ways_is_refused(name: str) -> None:
    """Its gradient would be that of the layer alone."""
    behind, x, weight = USED[name]
    step, module = Step("f32", channels_last=False), Weighing(behind)
    capture(module, (x, torch.randn(behind(module, x).shape)), step, targets=1)
    with pytest.raises(Unsupported, match=rf"outside of a layer \({weight}\)"):
        add_backward(step)


def test_a_square_is_the_same_either_way_round() -> None:
    step = captured(lambda _, y, t: functional.mse_loss(t, y), ROWS, torch.randn(4, 5), targets=1)
    add_backward(step)
    (square,) = (op for op in step.ops if op.kind == "mean_square")
    assert [square.inputs["target"]] == step.inputs[1:]
    assert all(parameter.gradient is not None for parameter in step.parameters)


def test_the_distance_of_two_results_is_refused() -> None:
    """Its target has a gradient as well."""
    step = captured(lambda _, y, t: functional.mse_loss(torch.relu(y), y + t), ROWS, torch.randn(4, 5), targets=1)
    with pytest.raises(Unsupported, match="the gradient of a mean_square by its target"):
        add_backward(step)


def test_a_log_softmax_that_someone_reads_is_kept_beside_the_loss() -> None:
    def both(_: Any, y: Any, t: Any) -> Any:
        logarithms = functional.log_softmax(y, 1)
        return logarithms, functional.nll_loss(logarithms, t)

    step = captured(both, ROWS, CLASSES)
    assert [op.kind for op in step.ops] == ["linear", "log_softmax", "cross_entropy"]
    alone = captured(lambda m, y, t: both(m, y, t)[1], ROWS, CLASSES)
    assert [op.kind for op in alone.ops] == ["linear", "cross_entropy"]


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_buffer_beside_half_types_is_refused(dtype: str) -> None:
    """It is float32, and the executor would read it as the half type."""
    step = Step(dtype, channels_last=False)
    with pytest.raises(Unsupported, match=f"aten.add.Tensor of float32 in a step of {dtype}"):
        capture(Calls(lambda m, y: y + m.state, nn.Linear(6, 5)), (ROWS.bfloat16(),), step)


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
