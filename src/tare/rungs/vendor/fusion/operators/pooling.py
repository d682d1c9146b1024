"""Pooling, as the ops that the executables have for it."""

from collections.abc import Sequence
from math import prod
from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.fusion.reader import Meta, Reader, reads
from tare.rungs.vendor.fusion.tensors import Operand, Result, Shape, TensorView, whole
from tare.rungs.vendor.lowering.backward import MAX_WINDOW


@reads("max_pool2d_with_indices")
def max_pool(
    reader: Reader, meta: Meta, self: Operand, kernel_size: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool,
) -> list[Operand]:  # fmt: skip
    geometry = _window(kernel_size, stride, padding)
    if any(step != 1 for step in dilation):
        raise Unsupported("max_pool2d with dilation")
    x, shape = _batch(reader, self), meta.parts[0]
    assert shape is not None
    four = _batch_shape(shape.shape)
    call = reader.call("max_pool", {"x": x}, {"y": (four, x.dtype), "index": (four, "u8")}, **geometry)
    return [reader.reshape(whole(call.results["y"]), shape.shape), whole(call.results["index"])]


@reads("max_pool2d_with_indices_backward")
def max_pool_backward(
    reader: Reader, meta: Meta, grad_output: Operand, self: Operand, kernel_size: Sequence[int],
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool, indices: Operand,
) -> Operand:  # fmt: skip
    geometry = _window(kernel_size, stride, padding)
    if not (
        isinstance(indices, TensorView) and isinstance(indices.tensor, Result) and indices.tensor.role == "index"
    ):
        raise Unsupported("the gradient of a max_pool2d by positions of another origin")
    if prod(kernel_size) > MAX_WINDOW:
        raise Unsupported(f"the gradient of a max_pool2d over more than {MAX_WINDOW} pixels")
    inputs = {"dy": _batch(reader, grad_output), "index": indices}
    results = {"dx": (_batch_shape(meta.shape), grad_output.dtype)}
    call = reader.call("max_pool_backward", inputs, results, **geometry)
    return reader.reshape(whole(call.results["dx"]), meta.shape)


@reads("avg_pool2d")
def average_pool(reader: Reader, meta: Meta, self: Operand, **window: Any) -> Operand:
    x, shape = _batch(reader, self), _batch_shape(meta.shape)
    call = reader.call("average_pool", {"x": x}, {"y": (shape, x.dtype)}, **_average_window(**window))
    result = reader.reshape(whole(call.results["y"]), meta.shape)
    factor = _share_of_window(x.shape, **window)
    return result if factor is None else _product(reader, result, reader.constant(factor), meta.shape)


@reads("avg_pool2d_backward")
def average_pool_backward(
    reader: Reader, meta: Meta, grad_output: Operand, self: Operand, **window: Any
) -> Operand:
    shape = _batch_shape(meta.shape)
    if (factor := _share_of_window(shape, **window)) is not None:
        gradient = reader.view(grad_output)
        grad_output = _product(reader, gradient, reader.constant(factor), gradient.shape)
    inputs = {"dy": _batch(reader, grad_output)}
    call = reader.call(
        "average_pool_backward", inputs, {"dx": (shape, grad_output.dtype)}, **_average_window(**window)
    )
    return reader.reshape(whole(call.results["dx"]), meta.shape)


def _product(reader: Reader, first: Operand, second: Operand, shape: Shape) -> Operand:
    return reader.pointwise("{0} * {1}", [first, second], shape, first.dtype)


@reads("_adaptive_avg_pool2d")
def adaptive_pool(reader: Reader, meta: Meta, self: Operand, output_size: Sequence[int]) -> Operand:
    x = _batch(reader, self)
    call = reader.call("average_pool", {"x": x}, {"y": (_batch_shape(meta.shape), x.dtype)}, adaptive=True)
    return reader.reshape(whole(call.results["y"]), meta.shape)


@reads("_adaptive_avg_pool2d_backward")
def adaptive_pool_backward(reader: Reader, meta: Meta, grad_output: Operand, self: Operand) -> Operand:
    inputs = {"dy": _batch(reader, grad_output)}
    results = {"dx": (_batch_shape(meta.shape), grad_output.dtype)}
    call = reader.call("average_pool_backward", inputs, results, adaptive=True)
    return reader.reshape(whole(call.results["dx"]), meta.shape)


def _window(kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> dict[str, list[int]]:
    def pair(sizes: Sequence[int]) -> list[int]:
        return list(sizes) * 2 if len(sizes) == 1 else list(sizes)

    return {"kernel": pair(kernel), "stride": pair(stride or kernel), "padding": pair(padding)}


def _average_window(
    kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int], **_: Any
) -> dict[str, list[int]]:
    return _window(kernel_size, stride, padding)


def _share_of_window(
    image: Shape, ceil_mode: bool, count_include_pad: bool, divisor_override: int | None, **window: Any
) -> Any:
    """What the average over a whole window is multiplied by where fewer pixels count, or None where all do. The op
    divides by the size of the window, whatever part of it lies in the image."""
    from torch import ones
    from torch.nn.functional import avg_pool2d

    sizes = _average_window(**window)
    arguments = (
        ones(1, 1, *image[2:]),
        sizes["kernel"],
        sizes["stride"],
        sizes["padding"],
        ceil_mode,
        count_include_pad,
    )
    factor = avg_pool2d(*arguments, divisor_override) / avg_pool2d(*arguments, prod(sizes["kernel"]))
    return None if bool((factor == 1).all()) else factor[0, 0]


def _batch(reader: Reader, operand: Operand) -> TensorView:
    view = reader.contiguous(operand)
    reshaped = view.reshape(_batch_shape(view.shape))
    assert reshaped is not None
    return reshaped


def _batch_shape(shape: Shape) -> Shape:
    return shape if len(shape) == 4 else (1, *shape)
