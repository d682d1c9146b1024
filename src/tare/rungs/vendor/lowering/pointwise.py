"""Activations, sums and products, number by number."""

from functools import partial

from tare.errors import Unsupported
from tare.rungs.vendor.lowering.handlers import lowers
from tare.rungs.vendor.lowering.plan import Step, Value

# Those whose slope follows from their result: what came before need not be kept.
FROM_RESULT = {"relu", "relu6", "hardtanh", "leaky_relu", "hardsigmoid", "sigmoid", "tanh"}
# What makes an activation up, among an operator's attributes.
SHAPING = ("activation", "parameter", "low", "high")


@lowers("aten.hardtanh.default")
def hardtanh(step: Step, self: Value, min_val: float, max_val: float) -> Value:
    if (min_val, max_val) == (0, 6):
        return activation(step, self, "relu6")
    return activation(step, self, "hardtanh", low=min_val, high=max_val)


@lowers("aten.leaky_relu.default")
def leaky_relu(step: Step, self: Value, negative_slope: float) -> Value:
    if negative_slope < 0:
        raise Unsupported("aten.leaky_relu with a slope that turns the sign")
    return activation(step, self, "leaky_relu", parameter=negative_slope)


@lowers("aten.gelu.default")
def gelu(step: Step, self: Value, approximate: str) -> Value:
    return activation(step, self, "gelu" if approximate == "none" else "gelu_tanh")


def _plain(step: Step, self: Value, name: str) -> Value:
    return activation(step, self, name)


for _name in ("relu", "hardsigmoid", "sigmoid", "tanh", "hardswish", "silu"):
    lowers(f"aten.{_name}.default")(partial(_plain, name=_name))


def activation(step: Step, x: Value, name: str, **parameters: float) -> Value:
    y = step.make(x.shape)
    step.emit("activation", {"x": x}, {"y": y}, activation=name, **parameters)
    return y


@lowers("aten.add.Tensor")
def add(step: Step, self: Value, other: Value, alpha: float = 1) -> Value:
    if not isinstance(self, Value) or not isinstance(other, Value):
        raise Unsupported("aten.add of a number")
    if alpha != 1 or self.shape != other.shape:
        raise Unsupported("aten.add with broadcasting or scaling")
    y = step.make(self.shape)
    step.emit("add", {"x": self, "z": other}, {"y": y})
    return y


@lowers("aten.mul.Tensor")
def multiply(step: Step, self: Value, other: Value) -> Value:
    """Two of one shape, or an image and one factor for each of its channels (squeeze and excitation)."""
    if not isinstance(self, Value) or not isinstance(other, Value):
        raise Unsupported("aten.mul by a number")
    if self.shape == other.shape:
        y = step.make(self.shape)
        step.emit("multiply", {"x": self, "z": other}, {"y": y})
        return y
    image, factor = (self, other) if self.size > other.size else (other, self)
    if len(image.shape) != 4 or factor.shape != (*image.shape[:2], 1, 1):
        raise Unsupported("aten.mul with broadcasting over anything but the pixels of images")
    y = step.make(image.shape)
    step.emit("scale_channels", {"x": image, "s": factor}, {"y": y})
    return y
