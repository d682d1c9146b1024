"""The operators with weights. One function an ATen operator: how the exported graph's calls become ours. What is
not in this folder is not supported."""

from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.lowering.handlers import lowers, pair
from tare.rungs.vendor.lowering.plan import Step, Value
from tare.rungs.vendor.lowering.shapes import view


@lowers("aten.conv2d.default")
def convolution(
    step: Step,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Value:
    if len(input.shape) != 4:
        raise Unsupported("aten.conv2d of anything but a batch of images")
    stride, padding, dilation = pair(stride), pair(padding), pair(dilation)
    n, _, *image = input.shape
    spatial = [
        (size + 2 * pad - dil * (kernel - 1) - 1) // move + 1
        for size, pad, dil, kernel, move in zip(image, padding, dilation, weight.shape[2:], stride, strict=True)
    ]
    y = step.make((n, weight.shape[0], *spatial))
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    step.emit("conv", {"x": input, "w": weight, "b": bias}, {"y": y}, **attributes)
    return y


@lowers("aten.conv_transpose2d.input")
def transposed_convolution(
    step: Step,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: list[int],
    padding: list[int],
    output_padding: list[int],
    groups: int,
    dilation: list[int],
) -> Value:
    """The call that is a convolution's gradient by its input, and named so: what it makes is the larger image."""
    if len(input.shape) != 4:
        raise Unsupported("aten.conv_transpose2d of anything but a batch of images")
    stride, padding, dilation = pair(stride), pair(padding), pair(dilation)
    if any(more >= move for more, move in zip(pair(output_padding), stride, strict=True)):
        # No convolution reads an image of that size: the call would be a gradient of none.
        raise Unsupported("aten.conv_transpose2d with an output padding not shorter than its stride")
    n, _, *image = input.shape
    spatial = [
        (size - 1) * move - 2 * pad + dil * (kernel - 1) + more + 1
        for size, move, pad, dil, kernel, more in zip(
            image, stride, padding, dilation, weight.shape[2:], pair(output_padding), strict=True
        )
    ]
    y = step.make((n, weight.shape[1] * groups, *spatial))
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    step.emit("conv_input_gradient", {"w": weight, "dy": input}, {"dx": y}, **attributes)
    if bias is None:
        return y
    shifted = step.make(y.shape)
    step.emit("add", {"x": y, "b": bias}, {"y": shifted})
    return shifted


@lowers("aten._native_batch_norm_legit_no_training.default")
def batch_norm_inference(
    step: Step,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,  # noqa: ARG001
    eps: float,
) -> tuple[Value]:
    _check_stored(weight, bias, running_mean, running_var)
    x = _as_image(step, input)
    y = step.make(x.shape)
    inputs = {"x": x, "scale": weight, "shift": bias, "mean": running_mean, "var": running_var}
    step.emit("batch_norm_inference", inputs, {"y": y}, eps=eps)
    return (y if x is input else view(step, y, list(input.shape)),)


@lowers("aten._native_batch_norm_legit_functional.default")
def batch_norm_training(
    step: Step,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    if not training:
        return (
            *batch_norm_inference(step, input, weight, bias, running_mean, running_var, momentum, eps),
            None,
            None,
        )
    if weight is None or bias is None:
        raise Unsupported("a batch norm without weights")
    _check_stored(weight, bias, running_mean, running_var)
    x = _as_image(step, input)
    y = step.make(x.shape)
    channels = (input.shape[1],)
    outputs = {"y": y, "saved_mean": step.make(channels, "f32"), "saved_invstd": step.make(channels, "f32")}
    inputs = {"x": x, "scale": weight, "shift": bias, "mean": running_mean, "var": running_var}
    step.emit("batch_norm", inputs, outputs, eps=eps, momentum=momentum)
    # The executor updates the running statistics in place: the new ones are the old ones' memory.
    return y if x is input else view(step, y, list(input.shape)), None, None, running_mean, running_var


@lowers("aten.batch_norm.default")
def batch_norm(
    step: Step,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,  # noqa: ARG001
) -> Value:
    if running_mean is None or running_var is None:
        raise Unsupported("a batch norm without running statistics")
    made: tuple[Value, ...] = batch_norm_training(
        step, input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    return made[0]


def _check_stored(*values: Value | None) -> None:
    """A batch norm's weights are folded ahead of time, its statistics are changed where they lie."""
    if any(value is not None and value.content is None for value in values):
        raise Unsupported("a batch norm whose weights or statistics are computed")


def _as_image(step: Step, x: Value) -> Value:
    """The executors look for channels second in images and last in rows: a signal of (N, C, L) is an image one
    pixel wide."""
    if len(x.shape) in (2, 4):
        return x
    if len(x.shape) != 3:
        raise Unsupported(f"a batch norm over {len(x.shape)} dimensions")
    image: Value = view(step, x, [*x.shape, 1])
    return image


@lowers("aten.linear.default")
def linear(step: Step, input: Value, weight: Value, bias: Value | None) -> Value:
    if len(input.shape) == 4:
        # No image: what is last in the shape must be last in memory, and is not the channels.
        rows: Value = view(step, input, [-1, input.shape[-1]])
        made: Value = view(step, linear(step, rows, weight, bias), [*input.shape[:-1], weight.shape[0]])
        return made
    y = step.make((*input.shape[:-1], weight.shape[0]))
    step.emit("linear", {"x": input, "w": weight, "b": bias}, {"y": y})
    return y


@lowers("aten.zeros.default")
def zeros(step: Step, size: list[int], **_: Any) -> Value:
    return step.make(size, name="zeros", region="zeros")


@lowers("aten.lstm.input")
def lstm(
    step: Step,
    input: Value,
    hx: list[Value],
    params: list[Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Value, Value, Value]:
    if not has_biases or bidirectional or batch_first or (dropout and train) or len(params) != 4 * num_layers:
        raise Unsupported("aten.lstm bidirectional, batch-first, projected, with dropout or without biases")
    if any(value.region != "zeros" for value in hx):
        raise Unsupported("aten.lstm with an initial state")
    steps, batch, _ = input.shape
    hidden = params[1].shape[1]
    state = (num_layers, batch, hidden)
    y, h, c = step.make((steps, batch, hidden)), step.make(state), step.make(state)
    named = {f"w{i}": value for i, value in enumerate(params)}
    # Both passes share what the forward one keeps; its size is the executor's to know, so it goes by a number.
    slot = sum(op.kind == "lstm" for op in step.ops)
    shape = {"layers": num_layers, "hidden": hidden, "slot": slot}
    step.emit("lstm", {"x": input, **named}, {"y": y, "h": h, "c": c}, **shape)
    return y, h, c
