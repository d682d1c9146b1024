"""The FLOPs and bytes of an operator, from the shapes that the profiler recorded (record_shapes=True).

A multiply and an add are two FLOPs. The result is None where the shapes do not determine it.
"""

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import msgspec

from tare.trace.tables import OperatorInputs, Trace

ITEM_BYTES = {
    "float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2, "long int": 8, "long": 8, "int": 4, "short": 2,
    "bool": 1, "unsigned char": 1, "signed char": 1, "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1,
    "c10::complex<float>": 8, "c10::complex<double>": 16,
}  # fmt: skip
# The position of the first of the two factors of a matrix product among the inputs.
_FACTORS = {
    "aten::mm": 0, "aten::bmm": 0, "aten::_int_mm": 0, "aten::_scaled_mm": 0, "aten::addmm": 1, "aten::baddbmm": 1,
    "aten::_addmm_activation": 1,
}  # fmt: skip
PRODUCTS = tuple(_FACTORS)
CONVOLUTIONS = ("aten::convolution", "aten::convolution_backward", "aten::cudnn_convolution")
RECURRENT = ("aten::_cudnn_rnn", "aten::_cudnn_rnn_backward")
# Each element of the inputs is read once and each element of the (broadcast) output is written once.
_POINTWISE_NAMES = (
    "add", "sub", "mul", "div", "relu", "clamp", "clamp_min", "clamp_max", "sigmoid", "tanh", "gelu", "silu",
    "exp", "log", "sqrt", "rsqrt", "neg", "abs", "pow", "where", "maximum", "minimum", "eq", "ne", "lt", "gt",
    "le", "ge", "bitwise_and", "bitwise_or", "logical_not", "hardtanh", "leaky_relu", "threshold_backward",
    "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward", "addcmul", "addcdiv", "lerp",
    "reciprocal", "cos", "sin", "copy",
)  # fmt: skip
_POINTWISE = {f"aten::{name}{tail}" for name in _POINTWISE_NAMES for tail in ("", "_")}
_WRITING = {"aten::fill_", "aten::zero_"}
_COUNTED = {*PRODUCTS, *CONVOLUTIONS, *RECURRENT, *_POINTWISE, *_WRITING}
# So many different calls are remembered.
MOST_SHAPES = 1 << 16


class Product(NamedTuple):
    """`batch` matrix products (m x k) by (k x n), their element type, and the strides of the factors."""

    batch: int
    m: int
    k: int
    n: int
    type: str
    strides: tuple[tuple[int, ...], tuple[int, ...]] | None

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.k * self.n


def product(trace: Trace, row: int) -> Product | None:
    """The shape of an operator that is a matrix product; None for any other."""
    return _product(trace.name(trace.operators, row), trace.inputs_of(row))


# A step repeats its calls, so that what a name and its inputs mean is computed once.
@lru_cache(maxsize=MOST_SHAPES)
def _product(name: str, inputs: OperatorInputs) -> Product | None:
    first = _FACTORS.get(name)
    dims, kinds = _shapes(inputs.dims), _kinds(inputs.types)
    if first is None or len(dims) < first + 2:
        return None
    left, right = dims[first], dims[first + 1]
    if len(left) not in (2, 3) or len(right) != len(left) or left[-1] != right[-2]:
        return None
    kind = kinds[first] if len(kinds) > first else ""
    strides = _shapes(inputs.strides)
    pair = (tuple(strides[first]), tuple(strides[first + 1])) if len(strides) > first + 1 else None
    return Product(left[0] if len(left) == 3 else 1, left[-2], left[-1], right[-1], kind, pair)


def flops(trace: Trace, row: int) -> int | None:
    """The FLOPs of a matrix product, a convolution or a recurrent layer."""
    return _flops(trace.name(trace.operators, row), trace.inputs_of(row))


@lru_cache(maxsize=MOST_SHAPES)
def _flops(name: str, inputs: OperatorInputs) -> int | None:
    if matrix_product := _product(name, inputs):
        return matrix_product.flops
    if name not in CONVOLUTIONS + RECURRENT:
        return None
    dims, values = _shapes(inputs.dims), _value(inputs.concrete)
    if name in RECURRENT:
        return _recurrent(name, dims[0] if dims else [], _value(inputs.dims), values)
    if len(dims) < 3:
        return None
    if name == "aten::convolution_backward":
        return _backward(dims, values)
    return _forward(name, dims[0], dims[1], values)


def _forward(name: str, x: list[int], weight: list[int], values: Any) -> int | None:
    if not isinstance(values, list) or len(values) < 6 or len(weight) < 3 or len(x) != len(weight):
        return None
    if name == "aten::convolution" and str(values[6:7]) not in ("['False']", "[]"):
        return None
    stride, padding, dilation = (3, 4, 5) if name == "aten::convolution" else (3, 2, 4)
    strides, pads, dilations = (_numbers(values[at], len(x) - 2) for at in (stride, padding, dilation))
    if strides is None or pads is None or dilations is None:
        return None
    output = [
        (size + 2 * pad - spread * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, spread in zip(x[2:], weight[2:], strides, pads, dilations, strict=True)
        if step > 0
    ]
    return 2 * x[0] * prod(output) * prod(weight)


def _backward(dims: list[list[int]], values: Any) -> int | None:
    """The gradients of input and weight cost as much as the forward pass each."""
    grad, weight = dims[0], dims[2]
    if len(grad) < 3 or len(weight) != len(grad):
        return None
    mask = str(values[-1]) if isinstance(values, list) and values else "[True, True, False]"
    wanted = [part.strip(" []") for part in mask.split(",")][:2]
    return 2 * grad[0] * prod(grad[2:]) * prod(weight) * wanted.count("True")


def _recurrent(name: str, x: list[int], dims: Any, values: Any) -> int | None:
    """Every weight is multiplied with every item of every time step: once forward, once backward for the inputs,
    and once more if the last entry of the output mask asks for the weights' gradients."""
    weights = dims[1] if isinstance(dims, list) and len(dims) > 1 and isinstance(dims[1], list) else []
    matrices = [shape for weight in weights if len(shape := _shape(weight)) == 2]
    if len(x) < 2 or not matrices:
        return None
    mask = str(values[-1]) if isinstance(values, list) and values else "[True]"
    wanted = name.endswith("_backward") and mask.endswith("True]")
    return 2 * prod(x[:-1]) * sum(map(prod, matrices)) * (2 if wanted else 1)


def bytes_touched(trace: Trace, row: int) -> int | None:
    """The bytes that a pointwise operator must at least read and write."""
    return _bytes_touched(trace.name(trace.operators, row), trace.inputs_of(row))


@lru_cache(maxsize=MOST_SHAPES)
def _bytes_touched(name: str, inputs: OperatorInputs) -> int | None:
    if name not in _POINTWISE and name not in _WRITING:
        return None
    dims, kinds = _shapes(inputs.dims), _kinds(inputs.types)
    if len(kinds) != len(dims):
        return None
    tensors = [(shape, ITEM_BYTES[kind]) for shape, kind in zip(dims, kinds, strict=True) if kind in ITEM_BYTES]
    if not tensors:
        return None
    largest = max(prod(shape) * item for shape, item in tensors)
    if name in _WRITING:
        return largest
    if name == "aten::copy_":
        return sum(prod(shape) * item for shape, item in tensors[:2])
    return sum(prod(shape) * item for shape, item in tensors) + largest


def shapes(trace: Trace, row: int) -> list[list[int]]:
    """The shapes of an operator's inputs; empty where they were not recorded."""
    return _shapes(trace.inputs_of(row).dims)


def shape_lists(trace: Trace, row: int) -> list[list[list[int]]]:
    """For each input that is a list of tensors the shapes of these; for any other an empty list."""
    value = _value(trace.inputs_of(row).dims)
    entries = value if isinstance(value, list) else []
    return [[_shape(shape) for shape in entry] if _is_list(entry) else [] for entry in entries]


def types(trace: Trace, row: int) -> list[str]:
    """The element types of an operator's inputs, in the same order."""
    return _kinds(trace.inputs_of(row).types)


def is_counted(name: str) -> bool:
    """Whether operators of this name have FLOPs or bytes."""
    return name in _COUNTED


@lru_cache(maxsize=MOST_SHAPES)
def _kinds(text: bytes) -> list[str]:
    value = _value(text)
    return [kind if isinstance(kind, str) else "" for kind in value] if isinstance(value, list) else []


@lru_cache(maxsize=MOST_SHAPES)
def _shapes(text: bytes) -> list[list[int]]:
    """The shapes in a text, checked, since any tool may have written the trace. No tensor has the shape []."""
    value = _value(text)
    return [_shape(entry) for entry in value] if isinstance(value, list) else []


def _value(text: bytes) -> Any:
    return msgspec.json.decode(text) if text else None


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(shape, list) for shape in value)


def _shape(value: Any) -> list[int]:
    valid = isinstance(value, list) and all(isinstance(n, int) and 0 <= n < 2**40 for n in value)
    return value if valid else []


def _numbers(text: Any, length: int) -> list[int] | None:
    """The numbers in '[1, 1]'. A single number stands for all dimensions."""
    parts = [part.strip() for part in str(text).strip("[]").split(",")]
    if not all(part.lstrip("-").isdecimal() and len(part) < 10 for part in parts):
        return None
    numbers = [int(part) for part in parts]
    return numbers * length if len(numbers) == 1 else numbers if len(numbers) == length else None
