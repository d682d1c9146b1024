"""What the vendor rung cannot compute is refused with a reason, before anything runs."""

import inspect
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tare.errors import Unsupported
from tare.rungs.vendor.lowering.backward import add_backward
from tare.rungs.vendor.lowering.capture import capture
from tare.rungs.vendor.lowering.operators import HANDLERS
from tare.rungs.vendor.lowering.plan import ExecutionPlan

IMAGES = torch.randn(4, 6, 20, 20)
ROWS = torch.randn(4, 6)
CLASSES = torch.tensor([0, 1, 2, 3])


class Calls(nn.Module):  # type: ignore[misc]
    """A layer with a weight, and a function of its result and the other tensors."""

    def __init__(self, function: Callable[..., Any], layer: nn.Module) -> None:
        super().__init__()
        self.function, self.layer = function, layer
        self.register_buffer("integers", torch.arange(20).reshape(4, 5))
        self.register_buffer("mean", torch.ones(5))
        self.register_buffer("state", torch.zeros(4, 5))
        self.register_buffer("scalar", torch.tensor(0.5))

    def forward(self, x: Any, *others: Any) -> Any:
        return self.function(self, self.layer(x), *others)


def captured(function: Callable[..., Any], *tensors: torch.Tensor, targets: int = 0) -> ExecutionPlan:
    layer = nn.Linear(6, 5) if tensors[0].dim() == 2 else nn.Conv2d(6, 4, 1)
    plan = ExecutionPlan("f32", channels_last=False)
    capture(Calls(function, layer), tensors, plan, targets=targets)
    return plan


def test_handlers_take_the_arguments_of_their_operators_by_name() -> None:
    for name, handler in HANDLERS.items():
        arguments = {a.name for a in operator.attrgetter(name)(torch.ops)._schema.arguments}
        parameters = inspect.signature(handler).parameters.values()
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            assert arguments <= {parameter.name for parameter in parameters}, name
        by_name = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.POSITIONAL_ONLY)]
        assert {p.name for p in by_name if p.default is p.empty} <= arguments, name


UNSUPPORTED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "sum with a number": (lambda _, y: y + 1.0, (ROWS,), "aten.add of a number"),
    "sum with integers": (lambda m, y: y + m.integers, (ROWS,), "aten.add.Tensor of integers"),
    "sum of integers": (lambda m, y: m.integers + y, (ROWS,), "aten.add.Tensor of integers"),
    "product with integers": (lambda m, y: y * m.integers, (ROWS,), "aten.mul.Tensor of integers"),
    "empty slice": (lambda _, y: y[:, 3:2], (ROWS,), "aten.slice that is empty"),
    "result that is not a tensor": (lambda _, y: (y, 3), (ROWS,), "no tensor"),
    "single image": (lambda _, y: functional.max_pool2d(y[0], 2), (IMAGES,), "operator for aten.select"),
    "class probabilities": (
        lambda _, y, t: functional.cross_entropy(y, t), (ROWS, torch.rand(4, 5).softmax(1)), "one class index",
    ),
    "ignored classes": (
        lambda _, y, t: functional.cross_entropy(y, t), (ROWS, torch.tensor([0, -100, 1, 2])), "ignored",
    ),
    "ignored class that another batch may contain": (
        lambda _, y, t: functional.cross_entropy(y, t, ignore_index=4), (ROWS, CLASSES), "ignored",
    ),
    "arithmetic on classes": (
        lambda _, y, t: functional.cross_entropy(y, t + 1), (ROWS, CLASSES), "aten.add.Tensor of integers",
    ),
    "integer result": (lambda m, y: (y, m.integers), (ROWS,), "a result of integers"),
    "mean of everything": (lambda _, y: y.mean(dim=None, keepdim=True), (IMAGES,), "aten.mean"),
    "transposed convolution of rows": (
        lambda m, y: functional.conv_transpose2d(y.view(4, 4, -1), m.layer.weight), (IMAGES,), "a batch of images",
    ),
    "output padding without a convolution": (
        lambda m, y: functional.conv_transpose2d(y, m.layer.weight, output_padding=1, dilation=2), (IMAGES,),
        "output padding",
    ),
    "batch norm with computed weights": (
        lambda m, y: functional.batch_norm(y, m.mean, m.mean, m.mean + m.mean), (ROWS,), "norm whose weights",
    ),
    "buffer that changes": (lambda m, y: (m.state.add_(y), y)[1], (ROWS,), "every step changes .state"),
    "buffer that changes through a view": (
        lambda m, y: (m.state.view(-1).add_(y.view(-1)), y)[1], (ROWS,), "every step changes .state",
    ),
    "activation without a handler": (lambda _, y: functional.selu(y), (ROWS,), "aten.selu.default"),
    "dropout in training": (lambda _, y: functional.dropout(y, 0.5), (ROWS,), "aten.dropout"),
    "convolution of volumes": (
        lambda m, y: functional.conv3d(y.unsqueeze(1), m.layer.weight.view(24, 1, 1, 1, 1)), (IMAGES,),
        "aten.conv3d.default",
    ),
    "softmax": (lambda _, y: functional.softmax(y, 1), (ROWS,), "aten.softmax.int"),
    "leaky ReLU with a slope below zero": (lambda _, y: functional.leaky_relu(y, -1), (ROWS,), "aten.leaky_relu"),
    "tensor without dimensions": (lambda m, y: (y, torch.sigmoid(m.scalar)), (ROWS,), "without dimensions"),
    "integer target of a mean square": (
        lambda _, y, t: functional.mse_loss(y, t), (ROWS, torch.ones(4, 5).long()), "integers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_operator_is_named(name: str) -> None:
    function, tensors, message = UNSUPPORTED[name]
    with pytest.raises(Unsupported, match=message):
        captured(function, *tensors, targets=len(tensors) - 1)


def test_classes_without_ignored_ones_are_supported() -> None:
    plan = captured(lambda _, y, t: functional.cross_entropy(y, t.view(-1)), ROWS, CLASSES, targets=1)
    assert [op.kind for op in plan.ops] == ["linear", "cross_entropy"]


class LossOf(nn.Module):  # type: ignore[misc]
    """The mean square of a function of the layers and the input."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.conv, self.lstm = nn.Linear(6, 6), nn.Conv2d(6, 4, 1), nn.LSTM(6, 5)
        self.function = function

    def forward(self, x: Any, target: Any) -> Any:
        return functional.mse_loss(self.function(self, x), target)


SQUARE, PIXEL = torch.randn(6, 6), torch.randn(4, 6, 1, 1)
WITHOUT_GRADIENT: dict[str, tuple[Callable[..., Any], torch.Tensor, str]] = {
    "last state of an LSTM": (lambda m, x: m.lstm(x)[1][0], torch.randn(3, 4, 6), "lstm's last state"),
    "windows with more positions than a byte can hold": (
        lambda m, x: functional.max_pool2d(m.conv(x), (16, 17)), IMAGES, "max_pool over more than 256 pixels",
    ),
    # The gradient of the layer alone would be wrong for all of the following.
    "layer used twice": (lambda m, x: m.layer(m.layer(x)), SQUARE, r"used twice \(layer\.(weight|bias)\)"),
    "weight tied to its transpose": (
        lambda m, x: functional.linear(m.layer(x), m.layer.weight.transpose(0, 1)), SQUARE,
        r"outside of a layer \(layer.weight\)",
    ),
    "weight used in a layer and outside": (
        lambda m, x: m.layer(x) * m.layer.weight, SQUARE, r"outside of a layer \(layer.weight\)",
    ),
    "view as a bias": (
        lambda m, x: functional.linear(x, m.layer.weight, m.layer.bias.view(2, 3).view(-1)), SQUARE,
        r"outside of a layer \(layer.bias\)",
    ),
    "view as a transposed filter": (
        lambda m, x: functional.conv_transpose2d(x, m.layer.weight.view(6, 6, 1, 1)), PIXEL,
        r"outside of a layer \(layer.weight\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_unsupported_gradient_is_named(name: str) -> None:
    function, x, message = WITHOUT_GRADIENT[name]
    plan, module = ExecutionPlan("f32", channels_last=False), LossOf(function)
    capture(module, (x, torch.randn(function(module, x).shape)), plan, targets=1)
    with pytest.raises(Unsupported, match=message):
        add_backward(plan)


def test_mean_square_is_symmetric() -> None:
    plan = captured(lambda _, y, t: functional.mse_loss(t, y), ROWS, torch.randn(4, 5), targets=1)
    add_backward(plan)
    (square,) = (op for op in plan.ops if op.kind == "mean_square")
    assert [square.inputs["target"]] == plan.inputs[1:]
    assert all(parameter.gradient is not None for parameter in plan.parameters)


def test_mean_square_of_two_results_is_refused() -> None:
    """Its target would need a gradient too."""
    plan = captured(lambda _, y, t: functional.mse_loss(torch.relu(y), y + t), ROWS, torch.randn(4, 5), targets=1)
    with pytest.raises(Unsupported, match="the gradient of a mean_square by its target"):
        add_backward(plan)


def test_log_softmax_with_another_reader_is_kept() -> None:
    def both(_: Any, y: Any, t: Any) -> Any:
        logarithms = functional.log_softmax(y, 1)
        return logarithms, functional.nll_loss(logarithms, t)

    plan = captured(both, ROWS, CLASSES)
    assert [op.kind for op in plan.ops] == ["linear", "log_softmax", "cross_entropy"]
    alone = captured(lambda m, y, t: both(m, y, t)[1], ROWS, CLASSES)
    assert [op.kind for op in alone.ops] == ["linear", "cross_entropy"]


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_float32_buffer_in_a_half_plan_is_refused(dtype: str) -> None:
    """The executables would read it as the half type."""
    plan = ExecutionPlan(dtype, channels_last=False)
    with pytest.raises(Unsupported, match=f"aten.add.Tensor of float32 in a step of {dtype}"):
        capture(Calls(lambda m, y: y + m.state, nn.Linear(6, 5)), (ROWS.bfloat16(),), plan)


def test_autocast_casts_every_input_but_the_target() -> None:
    class Two(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 5), nn.Linear(6, 5)

        def forward(self, x: Any, y: Any, target: Any) -> Any:
            return functional.mse_loss(self.a(x) + self.b(y), target)

    plan = ExecutionPlan("bf16", channels_last=False)
    capture(Two(), (ROWS, ROWS.clone(), torch.randn(4, 5)), plan, targets=1)
    assert [op.inputs["x"].name for op in plan.ops if op.kind == "cast"] == ["input0", "input1"]
