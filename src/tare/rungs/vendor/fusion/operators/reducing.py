"""Sums, maxima, variances, orders and running sums."""

from math import prod
from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.fusion.operators.pointwise import Number
from tare.rungs.vendor.fusion.operators.products import times
from tare.rungs.vendor.fusion.reader import Meta, Reader, reads
from tare.rungs.vendor.fusion.tensors import Operand, TensorView, whole
from tare.rungs.vendor.lowering.plan import HALVES


@reads(
    "sum.dim_IntList",
    "sum",
    "amax",
    "amin",
    "max",
    "min",
    "any.dim",
    "any.dims",
    "any",
    "all.dim",
    "all",
    "prod.dim_int",
    "prod",
)
def reduction(
    reader: Reader, meta: Meta, self: Operand, dim: Any = None, keepdim: bool = False, **_: Any
) -> Operand:
    operation = {"amax": "max", "amin": "min"}.get(kind := meta.name.partition(".")[0], kind)
    if isinstance(self, TensorView) and self.dtype == "u8" and operation in ("sum", "prod"):
        self = reader.pointwise("{0}", [self], self.shape, "i64")
    axes = [dim] if isinstance(dim, int) else list(dim or [])
    return reader.reduce(operation, self, axes, keepdim, meta.dtype)


@reads("mean", "mean.dim")
def mean(reader: Reader, meta: Meta, self: Operand, dim: Any = None, keepdim: bool = False, **_: Any) -> Operand:
    view = reader.view(self)
    total = reader.reduce("sum", view, list(dim or []), keepdim, "f32")
    return reader.cast(times(reader, total, prod(meta.shape) / view.size, meta.shape), meta.dtype)


@reads("var_mean.correction", "var.correction", "var.dim", "var")
def variance(
    reader: Reader, meta: Meta, self: Operand, dim: Any = None, correction: Number | None = None,
    keepdim: bool = False, unbiased: bool = True,
) -> Any:  # fmt: skip
    """In two passes, as exact as torch's."""
    view = reader.view(self)
    first = meta.parts[0] if meta.parts and meta.parts[0] else meta
    shape = first.shape
    axes = list(dim or [])
    over = {axis % len(view.shape) for axis in axes} if axes else set(range(len(view.shape)))
    count = prod(view.shape[axis] for axis in over)
    correction = int(unbiased) if correction is None else correction
    sums = reader.reduce("sum", view, axes, True, "f32")
    middle = times(reader, sums, 1 / count, sums.shape)
    distance = reader.pointwise("{0} - {1}", [view, middle], view.shape, "f32")
    squares = reader.pointwise("{0} * {0}", [distance], view.shape, "f32")
    total = reader.reduce("sum", squares, axes, keepdim, "f32")
    scaled = times(reader, total, 1 / (count - correction) if count > correction else float("nan"), shape)
    result, middle = reader.cast(scaled, first.dtype), reader.cast(middle, first.dtype)
    return (result, reader.reshape(middle, shape)) if meta.name.startswith("var_mean") else result


@reads("argmax", "argmin")
def place_of_extreme(
    reader: Reader, meta: Meta, self: Operand, dim: int | None = None, keepdim: bool = False
) -> Operand:
    return _place(reader, meta, self, dim, smallest=meta.name == "argmin")


@reads("max.dim", "min.dim")
def extreme_and_place(reader: Reader, meta: Meta, self: Operand, dim: int, keepdim: bool = False) -> list[Operand]:
    values, places = meta.parts
    assert values is not None
    assert places is not None
    kind = meta.name.partition(".")[0]
    extreme = reader.reduce(kind, self, [dim], keepdim, values.dtype)
    return [extreme, _place(reader, places, self, dim, smallest=kind == "min")]


def _place(reader: Reader, meta: Meta, operand: Operand, dim: int | None, smallest: bool) -> Operand:
    """The first place of the largest or smallest element of each row; of a NaN, if there is one."""
    view = reader.view(operand)
    if dim is None:
        view, dim = reader.reshape_view(view, (view.size,)), 0
    rows = reader.contiguous(view.permute(_last(view, dim)))
    if rows.dtype not in ("f32", "i64", *HALVES):
        raise Unsupported(f"the place of an extreme of {rows.dtype}")
    call = reader.call("place_of_extreme", {"x": rows}, {"y": (rows.shape[:-1], "i64")}, smallest=smallest)
    return reader.reshape(whole(call.results["y"]), meta.shape)


def _last(view: TensorView, dim: int) -> list[int]:
    """The order of dimensions in which one is the last."""
    axis = dim % len(view.shape)
    return [*(each for each in range(len(view.shape)) if each != axis), axis]


@reads("topk", "sort", "sort.stable")
def ordered(
    reader: Reader,
    meta: Meta,
    self: Operand,
    dim: int = -1,
    largest: bool = True,
    descending: bool = False,
    **_: Any,
) -> list[Operand]:
    """The first elements of each row in order, and their places. Equal ones stay in the order of the row."""
    view, values = reader.view(self), meta.parts[0]
    assert values is not None
    if view.dtype not in ("f32", *HALVES) or not view.shape:
        raise Unsupported(f"{meta.name} of {view.dtype}, or of a single number")
    last = _last(view, dim)
    rows = reader.contiguous(view.permute(last))
    shape = tuple(values.shape[each] for each in last)
    results = {"y": (shape, view.dtype), "places": (shape, "i64")}
    call = reader.call("order", {"x": rows}, results, falling=largest if meta.name == "topk" else descending)
    back = [last.index(each) for each in range(len(last))]
    return [whole(call.results[role]).permute(back) for role in results]


@reads("cumsum")
def cumulated(reader: Reader, meta: Meta, self: Operand, dim: int, dtype: Any = None) -> Operand:
    view = reader.view(self)
    if not view.shape:
        return view
    last = _last(view, dim)
    rows = view.permute(last)
    if rows.dtype != meta.dtype:
        rows = reader.pointwise("{0}", [rows], rows.shape, meta.dtype)
    call = reader.call("cumulate", {"x": reader.contiguous(rows)}, {"y": (rows.shape, meta.dtype)})
    return whole(call.results["y"]).permute([last.index(each) for each in range(len(last))])
