"""One handler for each ATen operator: it appends to the plan what the executables call in the operator's place.

An operator without a handler here is not supported by the vendor rung. A handler receives the plan, the shape of
the result as torch.export inferred it (a list of shapes where there are several results), and the call's arguments
by their names in ATen's schema. It returns the values of the results."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, TypeVar

from tare.errors import Unsupported
from tare.rungs.vendor.lowering.plan import ExecutionPlan, Value

Shape = tuple[int, ...]
Handler = TypeVar("Handler", bound=Callable[..., Any])
HANDLERS: dict[str, Callable[..., Any]] = {}
# Which operators accept integers, tensors without dimensions ("scalars"), or float32 in a plan of a half type. All
# others compute with the plan's type, and the executables look for channels in the last dimension.
ACCEPTED: dict[str, tuple[str, ...]] = {}
ANY_TYPE = ("integers", "float32")
ANY_TENSOR = ("integers", "scalars", "float32")

# Activations whose derivative follows from their result: their argument need not be kept for the backward pass.
DIFFERENTIABLE_FROM_RESULT = {"relu", "relu6", "hardtanh", "leaky_relu", "hardsigmoid", "sigmoid", "tanh"}
# The attributes of an op that describe its activation.
ACTIVATION_ATTRIBUTES = ("activation", "parameter", "low", "high")


def lowers(name: str, accepts: tuple[str, ...] = ()) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        HANDLERS[name], ACCEPTED[name] = handler, accepts
        return handler

    return register


def _pair(sizes: list[int] | int) -> list[int]:
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    return sizes * 2 if len(sizes) == 1 else sizes


def _require_images(operator: str, x: Value) -> None:
    if len(x.shape) != 4:
        raise Unsupported(f"{operator} of anything but a batch of images")


# Layers with weights


@lowers("aten.conv2d.default")
def convolution(
    plan: ExecutionPlan, shape: Shape, /, input: Value, weight: Value, bias: Value | None,
    stride: list[int], padding: list[int], dilation: list[int], groups: int,
) -> Value:  # fmt: skip
    _require_images("aten.conv2d", input)
    geometry = {"stride": _pair(stride), "padding": _pair(padding), "dilation": _pair(dilation), "groups": groups}
    return plan.apply("conv", {"x": input, "w": weight, "b": bias}, shape, **geometry)


@lowers("aten.conv_transpose2d.input")
def transposed_convolution(
    plan: ExecutionPlan, shape: Shape, /, input: Value, weight: Value, bias: Value | None,
    stride: list[int], padding: list[int], output_padding: list[int], groups: int, dilation: list[int],
) -> Value:  # fmt: skip
    """A transposed convolution is the gradient of a convolution by its input, so it is emitted as that."""
    _require_images("aten.conv_transpose2d", input)
    if any(more >= move for more, move in zip(_pair(output_padding), _pair(stride), strict=True)):
        # No convolution maps an image of that size to the input, so there is no gradient call for it.
        raise Unsupported("aten.conv_transpose2d with an output padding not shorter than its stride")
    geometry = {"stride": _pair(stride), "padding": _pair(padding), "dilation": _pair(dilation), "groups": groups}
    y = plan.make(shape)
    plan.emit("conv_input_gradient", {"w": weight, "dy": input}, {"dx": y}, **geometry)
    return y if bias is None else plan.apply("add", {"x": y, "b": bias}, shape)


@lowers("aten.linear.default")
def linear(plan: ExecutionPlan, shape: Shape, /, input: Value, weight: Value, bias: Value | None) -> Value:
    if len(shape) != 4:
        return plan.apply("linear", {"x": input, "w": weight, "b": bias}, shape)
    # Not an image: the features are the last dimension and must also be last in memory.
    rows = prod(shape[:-1])
    x = view(plan, (rows, input.shape[-1]), input)
    return view(plan, shape, linear(plan, (rows, shape[-1]), x, weight, bias))


@lowers("aten._native_batch_norm_legit_no_training.default", accepts=("float32",))
def batch_norm_no_training(plan: ExecutionPlan, shapes: list[Shape], /, **arguments: Any) -> tuple[Value]:
    return (batch_norm(plan, shapes[0], training=False, **arguments),)


@lowers("aten._native_batch_norm_legit_functional.default", accepts=("float32",))
def batch_norm_functional(plan: ExecutionPlan, shapes: list[Shape], /, **arguments: Any) -> tuple[Any, ...]:
    y = batch_norm(plan, shapes[0], **arguments)
    # The executable updates the running statistics in place, so the new values are the old ones' memory.
    return y, None, None, arguments["running_mean"], arguments["running_var"]


@lowers("aten.batch_norm.default", accepts=("float32",))
def batch_norm(
    plan: ExecutionPlan, shape: Shape, /, input: Value, weight: Value | None, bias: Value | None,
    running_mean: Value | None, running_var: Value | None, training: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,  # noqa: ARG001
) -> Value:  # fmt: skip
    if running_mean is None or running_var is None:
        raise Unsupported("a batch norm without running statistics")
    if training and (weight is None or bias is None):
        raise Unsupported("a batch norm without weights")
    if any(v is not None and v.content is None for v in (weight, bias, running_mean, running_var)):
        # Weights are folded ahead of time, and statistics are updated in place.
        raise Unsupported("a batch norm whose weights or statistics are computed")
    if len(shape) not in (2, 3, 4):
        raise Unsupported(f"a batch norm over {len(shape)} dimensions")
    # The executables expect channels second in images and last in rows: (N, C, L) is an image one pixel wide.
    x = view(plan, (*shape, 1), input) if len(shape) == 3 else input
    y = plan.make(x.shape)
    inputs = {"x": x, "scale": weight, "shift": bias, "mean": running_mean, "var": running_var}
    if training:
        saved = {name: plan.make((shape[1],), "f32") for name in ("saved_mean", "saved_invstd")}
        plan.emit("batch_norm", inputs, {"y": y, **saved}, eps=eps, momentum=momentum)
    else:
        plan.emit("batch_norm_inference", inputs, {"y": y}, eps=eps)
    return view(plan, shape, y)


@lowers("aten.zeros.default")
def zeros(plan: ExecutionPlan, shape: Shape, /, **_: Any) -> Value:
    return plan.make(shape, name="zeros", region="zeros")


@lowers("aten.lstm.input")
def lstm(
    plan: ExecutionPlan, shapes: list[Shape], /, input: Value, hx: list[Value], params: list[Value],
    has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Value, Value, Value]:  # fmt: skip
    if not has_biases or bidirectional or batch_first or (dropout and train) or len(params) != 4 * num_layers:
        raise Unsupported("aten.lstm bidirectional, batch-first, projected, with dropout or without biases")
    if any(value.region != "zeros" for value in hx):
        raise Unsupported("aten.lstm with an initial state")
    # torch.export's shapes of the last states have a dimension too many (torch 2.10).
    y, h, c = (plan.make(shape) for shape in (shapes[0], *(value.shape for value in hx)))
    weights = {f"w{i}": value for i, value in enumerate(params)}
    # The backward pass finds what the forward pass keeps by this number; only the executable knows its size.
    slot = sum(op.kind == "lstm" for op in plan.ops)
    sizes = {"layers": num_layers, "hidden": y.shape[-1], "slot": slot}
    plan.emit("lstm", {"x": input, **weights}, {"y": y, "h": h, "c": c}, **sizes)
    return y, h, c


# Elementwise operators


def activation(plan: ExecutionPlan, shape: Shape, /, self: Value, activation: str, **parameters: float) -> Value:
    return plan.apply("activation", {"x": self}, shape, activation=activation, **parameters)


for _name in ("relu", "hardsigmoid", "sigmoid", "tanh", "hardswish", "silu"):
    lowers(f"aten.{_name}.default")(partial(activation, activation=_name))


@lowers("aten.hardtanh.default")
def hardtanh(plan: ExecutionPlan, shape: Shape, /, self: Value, min_val: float, max_val: float) -> Value:
    if (min_val, max_val) == (0, 6):
        return activation(plan, shape, self, "relu6")
    return activation(plan, shape, self, "hardtanh", low=min_val, high=max_val)


@lowers("aten.leaky_relu.default")
def leaky_relu(plan: ExecutionPlan, shape: Shape, /, self: Value, negative_slope: float) -> Value:
    if negative_slope < 0:
        raise Unsupported("aten.leaky_relu with a slope below zero")
    return activation(plan, shape, self, "leaky_relu", parameter=negative_slope)


@lowers("aten.gelu.default")
def gelu(plan: ExecutionPlan, shape: Shape, /, self: Value, approximate: str) -> Value:
    return activation(plan, shape, self, "gelu" if approximate == "none" else "gelu_tanh")


@lowers("aten.add.Tensor")
def add(plan: ExecutionPlan, shape: Shape, /, self: Value, other: Value, alpha: float = 1) -> Value:
    if not isinstance(self, Value) or not isinstance(other, Value):
        raise Unsupported("aten.add of a number")
    if alpha != 1 or self.shape != other.shape:
        raise Unsupported("aten.add with broadcasting or scaling")
    return plan.apply("add", {"x": self, "z": other}, shape)


@lowers("aten.mul.Tensor")
def multiply(plan: ExecutionPlan, shape: Shape, /, self: Value, other: Value) -> Value:
    """Two tensors of one shape, or an image and one factor per channel (squeeze and excitation)."""
    if not isinstance(self, Value) or not isinstance(other, Value):
        raise Unsupported("aten.mul by a number")
    if self.shape == other.shape:
        return plan.apply("multiply", {"x": self, "z": other}, shape)
    image, factor = (self, other) if self.shape == shape else (other, self)
    if len(shape) != 4 or image.shape != shape or factor.shape != (*shape[:2], 1, 1):
        raise Unsupported("aten.mul with broadcasting over anything but the pixels of images")
    return plan.apply("scale_channels", {"x": image, "s": factor}, shape)


@lowers("aten.clone.default", accepts=ANY_TENSOR)
def clone(_plan: ExecutionPlan, _shape: Shape, /, self: Value, memory_format: Any) -> Value:  # noqa: ARG001
    """Captured values are never changed in place, so a clone can share the memory."""
    return self


@lowers("aten.dropout.default")
def dropout(_plan: ExecutionPlan, _shape: Shape, /, input: Value, p: float, train: bool | None) -> Value:
    if train and p > 0:
        raise Unsupported("aten.dropout in training: no two rungs would drop the same")
    return input


@lowers("aten.native_dropout.default")
def native_dropout(plan: ExecutionPlan, shapes: list[Shape], /, **arguments: Any) -> tuple[Value, None]:
    return dropout(plan, shapes[0], **arguments), None


# Pooling


@lowers("aten.max_pool2d.default")
def max_pool(
    plan: ExecutionPlan, shape: Shape, /, self: Value, kernel_size: list[int], stride: list[int],
    padding: list[int], dilation: list[int], ceil_mode: bool,  # noqa: ARG001 - the shape follows from it
) -> Value:  # fmt: skip
    if _pair(dilation) != [1, 1]:
        raise Unsupported("aten.max_pool2d with dilation")
    return _pool(plan, "max_pool", shape, self, kernel_size, stride, padding)


@lowers("aten.avg_pool2d.default")
def average_pool(
    plan: ExecutionPlan, shape: Shape, /, self: Value, kernel_size: list[int], stride: list[int],
    padding: list[int], ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    if divisor_override or ceil_mode or (not count_include_pad and any(_pair(padding))):
        raise Unsupported("aten.avg_pool2d with ceil mode, a divisor or a count without padding")
    return _pool(plan, "average_pool", shape, self, kernel_size, stride, padding)


@lowers("aten.adaptive_avg_pool2d.default")
def adaptive_average_pool(plan: ExecutionPlan, shape: Shape, /, self: Value, output_size: list[int]) -> Value:
    _require_images("aten.adaptive_avg_pool2d", self)
    if self.shape == shape:
        return self
    if any(size % pooled for size, pooled in zip(self.shape[2:], output_size, strict=True)):
        # Windows differ in size and may overlap: window i is from floor(i H / n) to ceil((i + 1) H / n).
        return plan.apply("average_pool", {"x": self}, shape, adaptive=True)
    kernel = [size // pooled for size, pooled in zip(self.shape[2:], output_size, strict=True)]
    return _pool(plan, "average_pool", shape, self, kernel, kernel, [0, 0])


@lowers("aten.mean.dim")
def mean(
    plan: ExecutionPlan, shape: Shape, /, self: Value, dim: list[int] | None, keepdim: bool, dtype: Any  # noqa: ARG001
) -> Value:  # fmt: skip
    """Over the pixels of images only: some networks write their global pooling so."""
    if len(self.shape) != 4 or not dim or sorted(d % 4 for d in dim) != [2, 3]:
        raise Unsupported("aten.mean of anything but the pixels of images")
    return view(plan, shape, adaptive_average_pool(plan, (*self.shape[:2], 1, 1), self, [1, 1]))


def _pool(
    plan: ExecutionPlan,
    kind: str,
    shape: Shape,
    x: Value,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
) -> Value:
    _require_images(f"a {kind}", x)
    geometry = {"kernel": _pair(kernel), "stride": _pair(stride or kernel), "padding": _pair(padding)}
    return plan.apply(kind, {"x": x}, shape, **geometry)


# Softmax and losses


@lowers("aten.log_softmax.int")
def log_softmax(plan: ExecutionPlan, shape: Shape, /, self: Value, dim: int, dtype: Any) -> Value:  # noqa: ARG001
    if len(self.shape) != 2 or dim not in (1, -1):
        raise Unsupported("aten.log_softmax over anything but the last of two dimensions")
    return plan.apply("log_softmax", {"x": self}, shape)


@lowers("aten.nll_loss_nd.default", accepts=ANY_TYPE)
def nll_loss(plan: ExecutionPlan, shape: Shape, /, self: Value, **arguments: Any) -> Value:
    softmax = plan.producer(self)
    if softmax is None or softmax.kind != "log_softmax":
        raise Unsupported("aten.nll_loss of anything but a log-softmax")
    return cross_entropy(plan, shape, softmax.inputs["x"], label_smoothing=0.0, **arguments)


@lowers("aten.cross_entropy_loss.default", accepts=ANY_TYPE)
def cross_entropy(
    plan: ExecutionPlan, shape: Shape, /, self: Value, target: Value, weight: Value | None, reduction: int,
    ignore_index: int, label_smoothing: float,
) -> Value:  # fmt: skip
    if weight is not None or reduction != 1 or label_smoothing or len(self.shape) != 2:
        raise Unsupported("aten.cross_entropy_loss with weights, smoothing, images or a sum")
    if target.dtype != "i64" or len(target.shape) != 1:
        raise Unsupported("aten.cross_entropy_loss with targets other than one class index per row")
    classes = target.owner.content
    # Another batch may contain a class that this one happens to lack.
    may_ignore = 0 <= ignore_index < self.shape[1]
    if may_ignore or (classes is not None and bool((classes == ignore_index).any())):
        raise Unsupported("aten.cross_entropy_loss with ignored classes")
    return _loss(plan, shape, "cross_entropy", self, target)


@lowers("aten.mse_loss.default", accepts=("float32",))
def mean_square(plan: ExecutionPlan, shape: Shape, /, self: Value, target: Value, reduction: int) -> Value:
    if reduction != 1:
        raise Unsupported("aten.mse_loss without the mean")
    if self.shape != target.shape:
        raise Unsupported("aten.mse_loss with broadcasting")
    return _loss(plan, shape, "mean_square", self, target)


def _loss(plan: ExecutionPlan, shape: Shape, kind: str, x: Value, target: Value) -> Value:
    """The call computes the loss and its gradient at once, so it keeps nothing for the backward pass."""
    loss = plan.make(shape, "f32", "loss", region="output")
    plan.emit(kind, {"x": x, "target": target}, {"loss": loss, "dx": plan.make(x.shape)})
    return loss


# Shapes: views, permutations, concatenation and slicing


@lowers("aten.view.default", accepts=ANY_TENSOR)
@lowers("aten.reshape.default", accepts=ANY_TENSOR)
@lowers("aten.unsqueeze.default", accepts=ANY_TENSOR)
@lowers("aten.flatten.using_ints", accepts=ANY_TYPE)
@lowers("aten.squeeze.dim", accepts=ANY_TYPE)
@lowers("aten._unsafe_view.default")
def view(plan: ExecutionPlan, shape: Shape, /, self: Value, **_: Any) -> Value:
    if shape == self.shape:
        return self
    # With a single pixel both memory layouts are the same; with more, the image is first made contiguous.
    if self.channels_last and prod(self.shape[2:]) > 1:
        self = _permute(plan, self, Value("", self.shape, self.dtype))
    if not (plan.channels_last and len(shape) == 4):
        return Value("", shape, self.dtype, base=self.owner)
    image = Value("", shape, self.dtype, channels_last=prod(shape[2:]) == 1, base=self.owner)
    return image if image.channels_last else _permute(plan, image, plan.make(shape, self.dtype))


@lowers("aten.permute.default")
def permute(plan: ExecutionPlan, shape: Shape, /, self: Value, dims: list[int]) -> Value:
    if len(shape) > 6:
        raise Unsupported("aten.permute of more than six dimensions")
    return _permute(plan, self, plan.make(shape, self.dtype), [d % len(shape) for d in dims])


@lowers("aten.transpose.int")
def transpose(plan: ExecutionPlan, shape: Shape, /, self: Value, dim0: int, dim1: int) -> Value:
    order = list(range(len(shape)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(plan, shape, self, order)


def _permute(plan: ExecutionPlan, x: Value, y: Value, order: list[int] | None = None) -> Value:
    """Dimension d of y is dimension order[d] of x."""
    if x.dtype != plan.dtype:
        raise Unsupported(f"a permutation of {x.dtype} in a step of {plan.dtype}")
    plan.emit("permute", {"x": x}, {"y": y}, order=order or list(range(len(x.shape))))
    return y


@lowers("aten.cat.default")
def concatenate(plan: ExecutionPlan, shape: Shape, /, tensors: list[Value], dim: int) -> Value:
    if any(t.dtype != tensors[0].dtype for t in tensors):
        raise Unsupported("aten.cat of different types")
    y = plan.make(shape, tensors[0].dtype)
    start = 0
    for tensor in tensors:
        _copy_block(plan, tensor, y, dim, to_start=start)
        start += tensor.shape[dim]
    return y


@lowers("aten.slice.Tensor")
def slice_(
    plan: ExecutionPlan, shape: Shape, /, self: Value, dim: int, start: int | None, end: int | None, step: int = 1
) -> Value:
    begin, _, stride = slice(start, end, step).indices(self.shape[dim])
    if stride != 1:
        raise Unsupported("aten.slice with a step")
    if not shape[dim]:
        raise Unsupported("aten.slice that is empty")
    return _narrow(plan, shape, self, dim, begin)


@lowers("aten.split.Tensor")
def split(plan: ExecutionPlan, shapes: list[Shape], /, self: Value, split_size: int, dim: int) -> list[Value]:
    return [_narrow(plan, shape, self, dim, i * split_size) for i, shape in enumerate(shapes)]


def _narrow(plan: ExecutionPlan, shape: Shape, x: Value, axis: int, start: int) -> Value:
    if shape == x.shape:
        return x
    y = plan.make(shape, x.dtype)
    _copy_block(plan, x, y, axis, from_start=start)
    return y


def _copy_block(
    plan: ExecutionPlan, x: Value, y: Value, axis: int, from_start: int = 0, to_start: int = 0
) -> None:
    """Copies as much as the smaller of two tensors holds, whose sizes differ in one dimension only: rows of
    neighbouring elements at a regular distance (a pitch) on both sides."""
    order = [0, 2, 3, 1] if y.channels_last else list(range(len(y.shape)))
    position = order.index(axis % len(order))
    rows, inner = (prod(y.shape[d] for d in dims) for dims in (order[:position], order[position + 1 :]))
    width = min(x.shape[axis], y.shape[axis]) * inner
    source = {"from_pitch": x.shape[axis] * inner, "from_offset": from_start * inner}
    target = {"to_pitch": y.shape[axis] * inner, "to_offset": to_start * inner}
    plan.emit("copy_block", {"x": x}, {"y": y}, rows=rows, width=width, **source, **target)


@lowers("aten.broadcast_tensors.default", accepts=("float32",))
def broadcast(_plan: ExecutionPlan, _shapes: list[Shape], /, tensors: list[Value]) -> list[Value]:
    if len({t.shape for t in tensors}) != 1:
        raise Unsupported("aten.broadcast_tensors of different shapes")
    return tensors
