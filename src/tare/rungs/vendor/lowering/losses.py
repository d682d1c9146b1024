"""Softmax and losses. A loss gives its value and its gradient at once: nothing of it has to be kept."""

from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.lowering.handlers import lowers
from tare.rungs.vendor.lowering.plan import Step, Value


@lowers("aten.log_softmax.int")
def log_softmax(step: Step, self: Value, dim: int, dtype: Any) -> Value:  # noqa: ARG001
    if len(self.shape) != 2 or dim not in (1, -1):
        raise Unsupported("aten.log_softmax over anything but the last of two dimensions")
    y = step.make(self.shape)
    step.emit("log_softmax", {"x": self}, {"y": y})
    return y


@lowers("aten.nll_loss_nd.default")
def nll_loss(
    step: Step, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> Value:
    softmax = next((op for op in step.ops if op.outputs.get("y") is self), None)
    if softmax is None or softmax.kind != "log_softmax":
        raise Unsupported("aten.nll_loss of anything but a log-softmax")
    loss: Value = cross_entropy(step, softmax.inputs["x"], target, weight, reduction, ignore_index, 0.0)
    return loss


@lowers("aten.cross_entropy_loss.default")
def cross_entropy(
    step: Step,
    self: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Value:
    if weight is not None or reduction != 1 or label_smoothing or len(self.shape) != 2:
        raise Unsupported("aten.cross_entropy_loss with weights, smoothing, images or a sum")
    if target.dtype != "i64" or len(target.shape) != 1:
        raise Unsupported("aten.cross_entropy_loss towards anything but one class a row")
    classes = target.owner.content
    # Another batch of a curve may have a class that this one happens to lack.
    ignores = 0 <= ignore_index < self.shape[1]
    if ignores or (classes is not None and bool((classes == ignore_index).any())):
        raise Unsupported("aten.cross_entropy_loss with classes that are ignored")
    return _loss(step, "cross_entropy", self, target)


@lowers("aten.mse_loss.default")
def mean_square(step: Step, self: Value, target: Value, reduction: int) -> Value:
    if reduction != 1:
        raise Unsupported("aten.mse_loss without the mean")
    if self.shape != target.shape:
        raise Unsupported("aten.mse_loss with broadcasting")
    return _loss(step, "mean_square", self, target)


def _loss(step: Step, kind: str, x: Value, target: Value) -> Value:
    """A loss gives its value and its gradient at once: nothing of it has to be kept."""
    loss = step.make((), "f32", "loss", region="output")
    step.emit(kind, {"x": x, "target": target}, {"loss": loss, "dx": step.make(x.shape)})
    return loss
