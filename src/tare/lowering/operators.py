"""One function an ATen operator: how the exported graph's calls become ours. What is not here is not supported."""

from typing import Any

from tare.errors import Unsupported
from tare.lowering.handlers import lowers
from tare.lowering.step import Step, Value


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
    y = step.make(input.shape)
    inputs = {"x": input, "scale": weight, "shift": bias, "mean": running_mean, "var": running_var}
    step.emit("batch_norm_inference", inputs, {"y": y}, eps=eps)
    return (y,)


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
    y = step.make(input.shape)
    channels = (input.shape[1],)
    outputs = {"y": y, "saved_mean": step.make(channels, "f32"), "saved_invstd": step.make(channels, "f32")}
    inputs = {"x": input, "scale": weight, "shift": bias, "mean": running_mean, "var": running_var}
    step.emit("batch_norm", inputs, outputs, eps=eps, momentum=momentum)
    # The executor updates the running statistics in place: the new ones are the old ones' memory.
    return y, None, None, running_mean, running_var


@lowers("aten.relu.default")
def relu(step: Step, self: Value) -> Value:
    return activation(step, self, "relu")


@lowers("aten.hardtanh.default")
def hardtanh(step: Step, self: Value, min_val: float, max_val: float) -> Value:
    if (min_val, max_val) != (0, 6):
        raise Unsupported(f"aten.hardtanh from {min_val} to {max_val}")
    return activation(step, self, "relu6")


def activation(step: Step, x: Value, name: str) -> Value:
    y = step.make(x.shape)
    step.emit("activation", {"x": x}, {"y": y}, activation=name)
    return y


@lowers("aten.add.Tensor")
def add(step: Step, self: Value, other: Value, alpha: float = 1) -> Value | None:
    if self.dtype == "i64":
        # The counter of batches that a batch norm keeps: nothing in the step reads it.
        return None
    if alpha != 1 or not isinstance(other, Value) or self.shape != other.shape:
        raise Unsupported("aten.add with broadcasting or scaling")
    y = step.make(self.shape)
    step.emit("add", {"x": self, "z": other}, {"y": y})
    return y


@lowers("aten.max_pool2d.default")
def max_pool(
    step: Step,
    self: Value,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
) -> Value:
    if pair(dilation) != [1, 1]:
        raise Unsupported("aten.max_pool2d with dilation")
    return _pool(step, "max_pool", self, kernel_size, stride, padding, ceil_mode)


@lowers("aten.avg_pool2d.default")
def average_pool(
    step: Step,
    self: Value,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    if divisor_override or ceil_mode or (not count_include_pad and any(pair(padding))):
        raise Unsupported("aten.avg_pool2d with ceil mode, a divisor or a count without padding")
    return _pool(step, "average_pool", self, kernel_size, stride, padding, ceil_mode)


@lowers("aten.adaptive_avg_pool2d.default")
def adaptive_average_pool(step: Step, self: Value, output_size: list[int]) -> Value:
    if list(self.shape[2:]) == list(output_size):
        return self
    if any(size % wanted for size, wanted in zip(self.shape[2:], output_size, strict=True)):
        # Windows of different sizes that may overlap: window i is from floor(i H / n) to ceil((i + 1) H / n).
        y = step.make((*self.shape[:2], *output_size))
        step.emit("average_pool", {"x": self}, {"y": y}, adaptive=True)
        return y
    kernel = [size // wanted for size, wanted in zip(self.shape[2:], output_size, strict=True)]
    return _pool(step, "average_pool", self, kernel, kernel, [0, 0], False)


@lowers("aten.mean.dim")
def mean(step: Step, self: Value, dim: list[int], keepdim: bool, dtype: Any) -> Value:  # noqa: ARG001
    """Over the pixels of images only: the global pool of some networks."""
    if len(self.shape) != 4 or sorted(d % 4 for d in dim) != [2, 3]:
        raise Unsupported("aten.mean of anything but the pixels of images")
    pooled: Value = adaptive_average_pool(step, self, [1, 1])
    flat: Value = pooled if keepdim else view(step, pooled, list(self.shape[:2]))
    return flat


@lowers("aten.clone.default")
def clone(step: Step, self: Value, memory_format: Any) -> Value:  # noqa: ARG001
    """Nothing in a step is changed in place, so that a copy is as good as the thing itself."""
    return self


def _pool(
    step: Step, kind: str, x: Value, kernel: list[int], stride: list[int], padding: list[int], ceil: bool
) -> Value:
    kernel, padding = pair(kernel), pair(padding)
    stride = pair(stride) if stride else kernel
    n, channels, *image = x.shape
    sizes = []
    for size, window, move, pad in zip(image, kernel, stride, padding, strict=True):
        wanted = (size + 2 * pad - window + (move - 1 if ceil else 0)) // move + 1
        # A window must begin inside the image or its left padding, as in torch.
        sizes.append(wanted - 1 if ceil and (wanted - 1) * move >= size + pad else wanted)
    y = step.make((n, channels, *sizes))
    step.emit(kind, {"x": x}, {"y": y}, kernel=kernel, stride=stride, padding=padding)
    return y


@lowers("aten.linear.default")
def linear(step: Step, input: Value, weight: Value, bias: Value | None) -> Value:
    y = step.make((*input.shape[:-1], weight.shape[0]))
    step.emit("linear", {"x": input, "w": weight, "b": bias}, {"y": y})
    return y


@lowers("aten.view.default", "aten.reshape.default")
def view(step: Step, self: Value, size: list[int]) -> Value:
    known = [n for n in size if n != -1]
    rest = self.size
    for n in known:
        rest //= n
    shape = tuple(rest if n == -1 else n for n in size)
    if self.channels_last and self.shape[2] * self.shape[3] > 1:
        plain = Value("", self.shape, self.dtype)
        step.emit("reorder", {"x": self}, {"y": plain})
        self = plain
    return Value("", shape, self.dtype, base=self)


@lowers("aten.dropout.default")
def dropout(step: Step, input: Value, p: float, train: bool) -> Value:  # noqa: ARG001
    if train and p > 0:
        raise Unsupported("aten.dropout in training: no two rungs would drop the same")
    return input


@lowers("aten.native_dropout.default")
def native_dropout(step: Step, input: Value, p: float, train: bool | None) -> tuple[Value, None]:
    return dropout(step, input, p, bool(train)), None


@lowers("aten.broadcast_tensors.default")
def broadcast(step: Step, tensors: list[Value]) -> list[Value]:  # noqa: ARG001
    if len({t.shape for t in tensors}) != 1:
        raise Unsupported("aten.broadcast_tensors of different shapes")
    return tensors


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
    step.emit("lstm", {"x": input, **named}, {"y": y, "h": h, "c": c}, layers=num_layers, hidden=hidden)
    return y, h, c


def pair(values: list[int] | int) -> list[int]:
    values = [values] if isinstance(values, int) else list(values)
    return values * 2 if len(values) == 1 else values
