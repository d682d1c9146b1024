"""Elementwise operators."""

import re
from collections.abc import Mapping
from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.fusion.elementwise import ELEMENTWISE, POWERS
from tare.rungs.vendor.fusion.reader import Meta, Reader, reads
from tare.rungs.vendor.fusion.tensors import (
    Constant,
    Operand,
    TensorView,
)
from tare.rungs.vendor.fusion.writer import stored
from tare.rungs.vendor.lowering.plan import HALVES

Number = float | int | bool
FIELD = re.compile(r"{(\w+)}")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@reads(*ELEMENTWISE)
def elementwise(reader: Reader, meta: Meta, **arguments: Any) -> Operand:
    template = ELEMENTWISE[meta.name]
    if meta.name.partition(".")[0] in COMPARISONS:
        template = as_stored(template, arguments)
    return expression(reader, meta, template, **arguments)


def as_stored(template: str, arguments: Mapping[str, Any]) -> str:
    """A kernel computes in float32 and rounds what it stores. A value equals a maximum of it that was stored only
    if it is rounded too; the gradient of the maximum divides by how many are equal to it."""
    for name, operand in arguments.items():
        if isinstance(operand, TensorView) and operand.dtype in HALVES:
            template = template.replace(f"{{{name}}}", f"float_({stored(f'{{{name}}}', operand.dtype)})")
    return template


def expression(reader: Reader, meta: Meta, template: str, **arguments: Any) -> Operand:
    """A template's fields are named by arguments, which are views, constants or numbers."""
    fields = list(dict.fromkeys(FIELD.findall(template)))
    given = [arguments[name] for name in fields]
    # A number is of the type of the tensors beside it, as in torch.
    dtypes = {getattr(operand, "dtype", "f32" if isinstance(operand, float) else "") for operand in given}
    literal = "f64" if "f64" in dtypes else "f32" if dtypes & {"f32", *HALVES} else "i64"
    operands = [operand if isinstance(operand, TensorView) else _constant(operand, literal) for operand in given]
    if template == ELEMENTWISE["mul.Tensor"] and isinstance(operands[0], TensorView):
        same_as = operands[0].shape == meta.shape and operands[0].dtype == meta.dtype
        if same_as and isinstance(operands[1], Constant) and operands[1].number == 1:
            return operands[0]
    numbered = FIELD.sub(lambda match: f"{{{fields.index(match[1])}}}", template)
    return reader.pointwise(numbered, operands, meta.shape, meta.dtype)


def _constant(operand: Any, dtype: str) -> Constant:
    number = operand.number if isinstance(operand, Constant) else operand
    if isinstance(number, bool):
        return Constant(number, "u8")
    return Constant(number if dtype == "i64" else float(number), dtype)


@reads("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "rsub.Scalar", "rsub.Tensor")
def sum_of_two(reader: Reader, meta: Meta, self: Any, other: Any, alpha: Number = 1) -> Operand:
    if meta.name.startswith("rsub"):
        self, other = other, self
    sign = "+" if meta.name.startswith("add") else "-"
    scaled = "{other}" if alpha == 1 else "{other} * {alpha}"
    return expression(reader, meta, f"{{self}} {sign} {scaled}", self=self, other=other, alpha=alpha)


@reads("div.Tensor_mode", "div.Scalar_mode")
def rounded_division(reader: Reader, meta: Meta, self: Any, other: Any, rounding_mode: str | None) -> Operand:
    if rounding_mode is None:
        return expression(reader, meta, ELEMENTWISE["div.Tensor"], self=self, other=other)
    if meta.dtype in ("f32", "f64", *HALVES):
        whole_number = "std::floor" if rounding_mode == "floor" else "std::trunc"
        return expression(reader, meta, f"{whole_number}({{self}} / {{other}})", self=self, other=other)
    template = "floor_divide_({self}, {other})" if rounding_mode == "floor" else "{self} / {other}"
    return expression(reader, meta, template, self=self, other=other)


@reads("pow.Tensor_Scalar")
def power(reader: Reader, meta: Meta, self: Any, exponent: Number) -> Operand:
    template = POWERS.get(exponent, "std::pow({self}, {exponent})")
    if meta.dtype == "i64" and exponent not in (1, 2, 3):
        raise Unsupported(f"{meta.name} of integers")
    return expression(reader, meta, template, self=self, exponent=float(exponent))


@reads("clamp", "clamp.Tensor")
def clamp(reader: Reader, meta: Meta, self: Any, min: Any = None, max: Any = None) -> Operand:
    template = "{self}"
    if min is not None:
        template = f"max_({template}, {{low}})"
    if max is not None:
        template = f"min_({template}, {{high}})"
    return expression(reader, meta, template, self=self, low=min, high=max)


@reads("clamp_min", "clamp_max")
def clamp_one_side(reader: Reader, meta: Meta, self: Any, **bound: Any) -> Operand:
    return clamp(reader, meta, self, **bound)


@reads(
    "full", "full_like", "new_full", "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "empty",
    "empty_like",
)  # fmt: skip
def fill(reader: Reader, meta: Meta, fill_value: Any = None, **_: Any) -> Operand:
    number = fill_value if fill_value is not None else (1 if "ones" in meta.name else 0)
    if not isinstance(number, Number):
        if not isinstance(number, Constant):
            raise Unsupported(f"{meta.name} with a computed number")
        number = number.number
    kinds: dict[str, type] = {"i64": int, "u8": bool}
    return Constant(kinds.get(meta.dtype, float)(number), meta.dtype, meta.shape)


@reads(
    "clone", "alias", "detach", "lift_fresh_copy", "lift_fresh", "contiguous", "_to_copy", "to.dtype",
    "convert_element_type", "positive",
)  # fmt: skip
def same(reader: Reader, meta: Meta, self: Operand, **_: Any) -> Operand:
    if self.dtype == meta.dtype:
        return self
    if isinstance(self, Constant):
        return fill(reader, meta, fill_value=self.number)
    return reader.pointwise("{0}", [self], meta.shape, meta.dtype)


@reads("copy", "fill.Scalar", "fill.Tensor")
def overwritten(
    reader: Reader, meta: Meta, self: Operand, src: Any = None, value: Any = None, **_: Any
) -> Operand:
    source = src if src is not None else value
    if isinstance(source, Number):
        return fill(reader, meta, fill_value=source)
    return reader.pointwise("{0}", [source], meta.shape, meta.dtype)
