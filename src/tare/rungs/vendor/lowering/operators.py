"""One handler for each ATen operator: it appends to the plan what the executables call in the operator's place.

An operator without a handler here is not supported by the vendor rung. A handler receives the plan and the call's
arguments by their names in ATen's schema, and returns the values of the results."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, TypeVar

from tare.errors import Unsupported
from tare.rungs.vendor.lowering.plan import ExecutionPlan, Value

Handler = TypeVar("Handler", bound=Callable[..., Any])
HANDLERS: dict[str, Callable[..., Any]] = {}
# Operators whose result never shares memory with an argument. (Without training, dropout returns its argument.)
ALLOCATING: set[str] = set()
# Operators that accept integers, tensors without dimensions, or float32 in a plan of a half type. All others
# compute with the plan's type, and the executables look for channels in the last dimension.
ACCEPTING: dict[str, set[str]] = {"integers": set(), "scalars": set(), "float32": set()}
ANY_TYPE = ("integers", "float32")
ANY_TENSOR = ("integers", "scalars", "float32")

# Activations whose derivative follows from their result: their argument need not be kept for the backward pass.
DIFFERENTIABLE_FROM_RESULT = {"relu", "relu6", "hardtanh", "leaky_relu", "hardsigmoid", "sigmoid", "tanh"}
# The attributes of an op that describe its activation.
ACTIVATION_ATTRIBUTES = ("activation", "parameter", "low", "high")


def lowers(name: str, accepts: tuple[str, ...] = (), allocates: bool = False) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        HANDLERS[name] = handler
        ALLOCATING.update([name] if allocates else [])
        for kind in accepts:
            ACCEPTING[kind].add(name)
        return handler

    return register


def _pair(sizes: list[int] | int) -> list[int]:
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    return sizes * 2 if len(sizes) == 1 else sizes


# Layers with weights


@lowers("aten.conv2d.default", allocates=True)
def convolution(
    plan: ExecutionPlan, input: Value, weight: Value, bias: Value | None,
    stride: list[int], padding: list[int], dilation: list[int], groups: int,
) -> Value:  # fmt: skip
    if len(input.shape) != 4:
        raise Unsupported("aten.conv2d of anything but a batch of images")
    stride, padding, dilation = _pair(stride), _pair(padding), _pair(dilation)
    image_size = [
        (size + 2 * pad - dil * (kernel - 1) - 1) // move + 1
        for size, pad, dil, kernel, move in zip(
            input.shape[2:], padding, dilation, weight.shape[2:], stride, strict=True
        )
    ]
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return plan.apply(
        "conv", {"x": input, "w": weight, "b": bias}, (input.shape[0], weight.shape[0], *image_size), **attributes
    )


@lowers("aten.conv_transpose2d.input", allocates=True)
def transposed_convolution(
    plan: ExecutionPlan, input: Value, weight: Value, bias: Value | None,
    stride: list[int], padding: list[int], output_padding: list[int], groups: int, dilation: list[int],
) -> Value:  # fmt: skip
    """A transposed convolution is the gradient of a convolution by its input, so it is emitted as that."""
    if len(input.shape) != 4:
        raise Unsupported("aten.conv_transpose2d of anything but a batch of images")
    stride, padding, dilation, extra = _pair(stride), _pair(padding), _pair(dilation), _pair(output_padding)
    if any(more >= move for more, move in zip(extra, stride, strict=True)):
        # No convolution maps an image of that size to the input, so there is no gradient call for it.
        raise Unsupported("aten.conv_transpose2d with an output padding not shorter than its stride")
    image_size = [
        (size - 1) * move - 2 * pad + dil * (kernel - 1) + more + 1
        for size, move, pad, dil, kernel, more in zip(
            input.shape[2:], stride, padding, dilation, weight.shape[2:], extra, strict=True
        )
    ]
    y = plan.make((input.shape[0], weight.shape[1] * groups, *image_size))
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    plan.emit("conv_input_gradient", {"w": weight, "dy": input}, {"dx": y}, **attributes)
    if bias is None:
        return y
    return plan.apply("add", {"x": y, "b": bias}, y.shape)


@lowers("aten.linear.default", allocates=True)
def linear(plan: ExecutionPlan, input: Value, weight: Value, bias: Value | None) -> Value:
    if len(input.shape) == 4:
        # Not an image: the features are the last dimension and must also be last in memory.
        rows = view(plan, input, [-1, input.shape[-1]])
        return view(plan, linear(plan, rows, weight, bias), [*input.shape[:-1], weight.shape[0]])
    return plan.apply("linear", {"x": input, "w": weight, "b": bias}, (*input.shape[:-1], weight.shape[0]))


@lowers("aten._native_batch_norm_legit_no_training.default", accepts=("float32",))
def batch_norm_no_training(
    plan: ExecutionPlan, input: Value, weight: Value | None, bias: Value | None,
    running_mean: Value, running_var: Value, momentum: float, eps: float,
) -> tuple[Value]:  # fmt: skip
    return (batch_norm(plan, input, weight, bias, running_mean, running_var, False, momentum, eps),)


@lowers("aten._native_batch_norm_legit_functional.default", accepts=("float32",))
def batch_norm_functional(
    plan: ExecutionPlan, input: Value, weight: Value | None, bias: Value | None,
    running_mean: Value, running_var: Value, training: bool, momentum: float, eps: float,
) -> tuple[Any, ...]:  # fmt: skip
    y = batch_norm(plan, input, weight, bias, running_mean, running_var, training, momentum, eps)
    # The executable updates the running statistics in place, so the new values are the old ones' memory.
    return y, None, None, running_mean, running_var


@lowers("aten.batch_norm.default", accepts=("float32",), allocates=True)
def batch_norm(
    plan: ExecutionPlan, input: Value, weight: Value | None, bias: Value | None,
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
    if len(input.shape) not in (2, 3, 4):
        raise Unsupported(f"a batch norm over {len(input.shape)} dimensions")
    # The executables expect channels second in images and last in rows: (N, C, L) is an image one pixel wide.
    x = view(plan, input, [*input.shape, 1]) if len(input.shape) == 3 else input
    y = plan.make(x.shape)
    inputs = {"x": x, "scale": weight, "shift": bias, "mean": running_mean, "var": running_var}
    if training:
        saved = {name: plan.make((input.shape[1],), "f32") for name in ("saved_mean", "saved_invstd")}
        plan.emit("batch_norm", inputs, {"y": y, **saved}, eps=eps, momentum=momentum)
    else:
        plan.emit("batch_norm_inference", inputs, {"y": y}, eps=eps)
    return y if x is input else view(plan, y, list(input.shape))


@lowers("aten.zeros.default")
def zeros(plan: ExecutionPlan, size: list[int], **_: Any) -> Value:
    return plan.make(size, name="zeros", region="zeros")


@lowers("aten.lstm.input")
def lstm(
    plan: ExecutionPlan, input: Value, hx: list[Value], params: list[Value], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Value, Value, Value]:  # fmt: skip
    if not has_biases or bidirectional or batch_first or (dropout and train) or len(params) != 4 * num_layers:
        raise Unsupported("aten.lstm bidirectional, batch-first, projected, with dropout or without biases")
    if any(value.region != "zeros" for value in hx):
        raise Unsupported("aten.lstm with an initial state")
    steps, batch, _ = input.shape
    hidden = params[1].shape[1]
    y = plan.make((steps, batch, hidden))
    h, c = (plan.make((num_layers, batch, hidden)) for _ in range(2))
    weights = {f"w{i}": value for i, value in enumerate(params)}
    # The backward pass finds what the forward pass keeps by this number; only the executable knows its size.
    slot = sum(op.kind == "lstm" for op in plan.ops)
    sizes = {"layers": num_layers, "hidden": hidden, "slot": slot}
    plan.emit("lstm", {"x": input, **weights}, {"y": y, "h": h, "c": c}, **sizes)
    return y, h, c


# Elementwise operators


@lowers("aten.hardtanh.default")
def hardtanh(plan: ExecutionPlan, self: Value, min_val: float, max_val: float) -> Value:
    if (min_val, max_val) == (0, 6):
        return activation(plan, self, "relu6")
    return activation(plan, self, "hardtanh", low=min_val, high=max_val)


@lowers("aten.leaky_relu.default")
def leaky_relu(plan: ExecutionPlan, self: Value, negative_slope: float) -> Value:
    if negative_slope < 0:
        raise Unsupported("aten.leaky_relu with a slope below zero")
    return activation(plan, self, "leaky_relu", parameter=negative_slope)


@lowers("aten.gelu.default")
def gelu(plan: ExecutionPlan, self: Value, approximate: str) -> Value:
    return activation(plan, self, "gelu" if approximate == "none" else "gelu_tanh")


def _activation_without_parameters(plan: ExecutionPlan, self: Value, name: str) -> Value:
    return activation(plan, self, name)


for _name in ("relu", "hardsigmoid", "sigmoid", "tanh", "hardswish", "silu"):
    HANDLERS[f"aten.{_name}.default"] = partial(_activation_without_parameters, name=_name)


def activation(plan: ExecutionPlan, x: Value, name: str, **parameters: float) -> Value:
    return plan.apply("activation", {"x": x}, x.shape, activation=name, **parameters)


@lowers("aten.add.Tensor", allocates=True)
def add(plan: ExecutionPlan, self: Value, other: Value, alpha: float = 1) -> Value:
    if not isinstance(self, Value) or not isinstance(other, Value):
        raise Unsupported("aten.add of a number")
    if alpha != 1 or self.shape != other.shape:
        raise Unsupported("aten.add with broadcasting or scaling")
    return plan.apply("add", {"x": self, "z": other}, self.shape)


@lowers("aten.mul.Tensor", allocates=True)
def multiply(plan: ExecutionPlan, self: Value, other: Value) -> Value:
    """Two tensors of one shape, or an image and one factor per channel (squeeze and excitation)."""
    if not isinstance(self, Value) or not isinstance(other, Value):
        raise Unsupported("aten.mul by a number")
    image, factor = (self, other) if self.size >= other.size else (other, self)
    if image.shape == factor.shape:
        return plan.apply("multiply", {"x": self, "z": other}, image.shape)
    if len(image.shape) != 4 or factor.shape != (*image.shape[:2], 1, 1):
        raise Unsupported("aten.mul with broadcasting over anything but the pixels of images")
    return plan.apply("scale_channels", {"x": image, "s": factor}, image.shape)


@lowers("aten.clone.default", accepts=ANY_TENSOR)
def clone(plan: ExecutionPlan, self: Value, memory_format: Any) -> Value:  # noqa: ARG001
    """Captured values are never changed in place, so a clone can share the memory."""
    return self


@lowers("aten.dropout.default")
def dropout(plan: ExecutionPlan, input: Value, p: float, train: bool) -> Value:  # noqa: ARG001
    if train and p > 0:
        raise Unsupported("aten.dropout in training: no two rungs would drop the same")
    return input


@lowers("aten.native_dropout.default")
def native_dropout(plan: ExecutionPlan, input: Value, p: float, train: bool | None) -> tuple[Value, None]:
    return dropout(plan, input, p, bool(train)), None


# Pooling


@lowers("aten.max_pool2d.default", allocates=True)
def max_pool(
    plan: ExecutionPlan, self: Value, kernel_size: list[int], stride: list[int], padding: list[int],
    dilation: list[int], ceil_mode: bool,
) -> Value:  # fmt: skip
    if _pair(dilation) != [1, 1]:
        raise Unsupported("aten.max_pool2d with dilation")
    return _pool(plan, "max_pool", self, kernel_size, stride, padding, ceil_mode)


@lowers("aten.avg_pool2d.default", allocates=True)
def average_pool(
    plan: ExecutionPlan, self: Value, kernel_size: list[int], stride: list[int], padding: list[int],
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    if divisor_override or ceil_mode or (not count_include_pad and any(_pair(padding))):
        raise Unsupported("aten.avg_pool2d with ceil mode, a divisor or a count without padding")
    return _pool(plan, "average_pool", self, kernel_size, stride, padding, ceil_mode)


@lowers("aten.adaptive_avg_pool2d.default", allocates=True)
def adaptive_average_pool(plan: ExecutionPlan, self: Value, output_size: list[int]) -> Value:
    if len(self.shape) != 4:
        raise Unsupported("aten.adaptive_avg_pool2d of anything but a batch of images")
    if list(self.shape[2:]) == list(output_size):
        return self
    if any(size % pooled for size, pooled in zip(self.shape[2:], output_size, strict=True)):
        # Windows differ in size and may overlap: window i is from floor(i H / n) to ceil((i + 1) H / n).
        return plan.apply("average_pool", {"x": self}, (*self.shape[:2], *output_size), adaptive=True)
    kernel = [size // pooled for size, pooled in zip(self.shape[2:], output_size, strict=True)]
    return _pool(plan, "average_pool", self, kernel, kernel, [0, 0], False)


@lowers("aten.mean.dim")
def mean(plan: ExecutionPlan, self: Value, dim: list[int] | None, keepdim: bool, dtype: Any) -> Value:  # noqa: ARG001
    """Over the pixels of images only: some networks write their global pooling so."""
    if len(self.shape) != 4 or not dim or sorted(d % 4 for d in dim) != [2, 3]:
        raise Unsupported("aten.mean of anything but the pixels of images")
    pooled = adaptive_average_pool(plan, self, [1, 1])
    return pooled if keepdim else view(plan, pooled, list(self.shape[:2]))


def _pool(
    plan: ExecutionPlan, kind: str, x: Value, kernel: list[int], stride: list[int], padding: list[int], ceil: bool
) -> Value:
    if len(x.shape) != 4:
        raise Unsupported(f"a {kind} of anything but a batch of images")
    kernel, padding = _pair(kernel), _pair(padding)
    stride = _pair(stride) if stride else kernel
    image_size = []
    for size, window, move, pad in zip(x.shape[2:], kernel, stride, padding, strict=True):
        count = (size + 2 * pad - window + (move - 1 if ceil else 0)) // move + 1
        # As in torch, a window must begin inside the image or its left padding.
        image_size.append(count - 1 if ceil and (count - 1) * move >= size + pad else count)
    return plan.apply(kind, {"x": x}, (*x.shape[:2], *image_size), kernel=kernel, stride=stride, padding=padding)


# Softmax and losses


@lowers("aten.log_softmax.int")
def log_softmax(plan: ExecutionPlan, self: Value, dim: int, dtype: Any) -> Value:  # noqa: ARG001
    if len(self.shape) != 2 or dim not in (1, -1):
        raise Unsupported("aten.log_softmax over anything but the last of two dimensions")
    return plan.apply("log_softmax", {"x": self}, self.shape)


@lowers("aten.nll_loss_nd.default", accepts=ANY_TYPE)
def nll_loss(
    plan: ExecutionPlan, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> Value:
    softmax = next((op for op in plan.ops if op.outputs.get("y") is self), None)
    if softmax is None or softmax.kind != "log_softmax":
        raise Unsupported("aten.nll_loss of anything but a log-softmax")
    return cross_entropy(plan, softmax.inputs["x"], target, weight, reduction, ignore_index, 0.0)


@lowers("aten.cross_entropy_loss.default", accepts=ANY_TYPE)
def cross_entropy(
    plan: ExecutionPlan, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int,
    label_smoothing: float,
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
    return _loss(plan, "cross_entropy", self, target)


@lowers("aten.mse_loss.default", accepts=("float32",))
def mean_square(plan: ExecutionPlan, self: Value, target: Value, reduction: int) -> Value:
    if reduction != 1:
        raise Unsupported("aten.mse_loss without the mean")
    if self.shape != target.shape:
        raise Unsupported("aten.mse_loss with broadcasting")
    return _loss(plan, "mean_square", self, target)


def _loss(plan: ExecutionPlan, kind: str, x: Value, target: Value) -> Value:
    """The call computes the loss and its gradient at once, so it keeps nothing for the backward pass."""
    loss = plan.make((), "f32", "loss", region="output")
    plan.emit(kind, {"x": x, "target": target}, {"loss": loss, "dx": plan.make(x.shape)})
    return loss


# Shapes: views, permutations, concatenation and slicing


@lowers("aten._unsafe_view.default")
@lowers("aten.view.default", accepts=ANY_TENSOR)
def view(plan: ExecutionPlan, self: Value, size: list[int]) -> Value:
    known = prod(n for n in size if n != -1)
    shape = tuple(self.size // known if n == -1 else n for n in size)
    # With a single pixel both memory layouts are the same; with more, the image is first made contiguous.
    if self.channels_last and prod(self.shape[2:]) > 1:
        self = _permute(plan, self, Value("", self.shape, self.dtype))
    if not (plan.channels_last and len(shape) == 4):
        return Value("", shape, self.dtype, base=self.owner)
    image = Value("", shape, self.dtype, channels_last=prod(shape[2:]) == 1, base=self.owner)
    return image if image.channels_last else _permute(plan, image, plan.make(shape, self.dtype))


@lowers("aten.reshape.default", accepts=ANY_TENSOR)
def reshape(plan: ExecutionPlan, self: Value, shape: list[int]) -> Value:
    return view(plan, self, shape)


@lowers("aten.flatten.using_ints", accepts=ANY_TYPE)
def flatten(plan: ExecutionPlan, self: Value, start_dim: int, end_dim: int) -> Value:
    start, end = start_dim % len(self.shape), end_dim % len(self.shape) + 1
    return view(plan, self, [*self.shape[:start], prod(self.shape[start:end]), *self.shape[end:]])


@lowers("aten.squeeze.dim", accepts=ANY_TYPE)
def squeeze(plan: ExecutionPlan, self: Value, dim: int) -> Value:
    axis = dim % len(self.shape)
    return view(plan, self, [*self.shape[:axis], *self.shape[axis + 1 :]]) if self.shape[axis] == 1 else self


@lowers("aten.unsqueeze.default", accepts=ANY_TENSOR)
def unsqueeze(plan: ExecutionPlan, self: Value, dim: int) -> Value:
    axis = dim % (len(self.shape) + 1)
    return view(plan, self, [*self.shape[:axis], 1, *self.shape[axis:]])


@lowers("aten.permute.default")
def permute(plan: ExecutionPlan, self: Value, dims: list[int]) -> Value:
    order = [d % len(self.shape) for d in dims]
    if len(order) > 6:
        raise Unsupported("aten.permute of more than six dimensions")
    return _permute(plan, self, plan.make([self.shape[d] for d in order], self.dtype), order)


@lowers("aten.transpose.int")
def transpose(plan: ExecutionPlan, self: Value, dim0: int, dim1: int) -> Value:
    order = list(range(len(self.shape)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(plan, self, order)


def _permute(plan: ExecutionPlan, x: Value, y: Value, order: list[int] | None = None) -> Value:
    """Dimension d of y is dimension order[d] of x."""
    if x.dtype != plan.dtype:
        raise Unsupported(f"a permutation of {x.dtype} in a step of {plan.dtype}")
    plan.emit("permute", {"x": x}, {"y": y}, order=order or list(range(len(x.shape))))
    return y


@lowers("aten.cat.default", allocates=True)
def concatenate(plan: ExecutionPlan, tensors: list[Value], dim: int) -> Value:
    first = tensors[0]
    if any(t.dtype != first.dtype for t in tensors):
        raise Unsupported("aten.cat of different types")
    axis = dim % len(first.shape)
    shape = list(first.shape)
    shape[axis] = sum(t.shape[axis] for t in tensors)
    y = plan.make(shape, first.dtype)
    rows, inner = _rows_and_inner(y, axis)
    start = 0
    for tensor in tensors:
        width = tensor.shape[axis] * inner
        source = {"from_pitch": width, "from_offset": 0}
        target = {"to_pitch": shape[axis] * inner, "to_offset": start * inner}
        plan.emit("copy_block", {"x": tensor}, {"y": y}, rows=rows, width=width, **source, **target)
        start += tensor.shape[axis]
    return y


@lowers("aten.slice.Tensor")
def slice_(plan: ExecutionPlan, self: Value, dim: int, start: int | None, end: int | None, step: int = 1) -> Value:
    axis = dim % len(self.shape)
    begin, stop, stride = slice(start, end, step).indices(self.shape[axis])
    if stride != 1:
        raise Unsupported("aten.slice with a step")
    if stop <= begin:
        raise Unsupported("aten.slice that is empty")
    return _narrow(plan, self, axis, begin, stop - begin)


@lowers("aten.split.Tensor")
def split(plan: ExecutionPlan, self: Value, split_size: int, dim: int) -> list[Value]:
    axis = dim % len(self.shape)
    size = self.shape[axis]
    starts = range(0, size, split_size)
    return [_narrow(plan, self, axis, start, min(split_size, size - start)) for start in starts]


def _narrow(plan: ExecutionPlan, x: Value, axis: int, start: int, length: int) -> Value:
    if length == x.shape[axis]:
        return x
    y = plan.make([length if d == axis else n for d, n in enumerate(x.shape)], x.dtype)
    rows, inner = _rows_and_inner(x, axis)
    width = length * inner
    source = {"from_pitch": x.shape[axis] * inner, "from_offset": start * inner}
    target = {"to_pitch": width, "to_offset": 0}
    plan.emit("copy_block", {"x": x}, {"y": y}, rows=rows, width=width, **source, **target)
    return y


def _rows_and_inner(value: Value, axis: int) -> tuple[int, int]:
    """The product of the sizes outside a dimension and of those inside it, in the order of memory."""
    order = [0, 2, 3, 1] if value.channels_last else list(range(len(value.shape)))
    position = order.index(axis)
    outer, inner = order[:position], order[position + 1 :]
    return prod(value.shape[d] for d in outer), prod(value.shape[d] for d in inner)


@lowers("aten.broadcast_tensors.default", accepts=("float32",))
def broadcast(plan: ExecutionPlan, tensors: list[Value]) -> list[Value]:  # noqa: ARG001
    if len({t.shape for t in tensors}) != 1:
        raise Unsupported("aten.broadcast_tensors of different shapes")
    return tensors
