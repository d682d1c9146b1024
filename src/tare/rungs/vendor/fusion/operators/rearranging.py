"""Operators that only rearrange a tensor, or put one together from parts."""

from collections.abc import Sequence
from math import prod
from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.fusion.operators.pointwise import Number
from tare.rungs.vendor.fusion.reader import Meta, Reader, reads
from tare.rungs.vendor.fusion.tensors import Constant, Operand, Tensor, TensorView, whole


@reads(
    "view", "reshape", "_unsafe_view", "flatten.using_ints", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims",
    "_reshape_alias",
)  # fmt: skip
def reshaped(reader: Reader, meta: Meta, self: Operand, **_: Any) -> Operand:
    return reader.reshape(self, meta.shape)


@reads("expand", "broadcast_to")
def expand(reader: Reader, meta: Meta, self: Operand, **_: Any) -> Operand:
    return (
        Constant(self.number, self.dtype, meta.shape)
        if isinstance(self, Constant)
        else reader.view(self).expand(meta.shape)
    )


@reads("repeat")
def repeat(reader: Reader, meta: Meta, self: Operand, repeats: Sequence[int]) -> Operand:
    if isinstance(self, Constant):
        return Constant(self.number, self.dtype, meta.shape)
    view = reader.view(self)
    shape = (*([1] * (len(repeats) - len(view.shape))), *view.shape)
    pairs = [pair for times, size in zip(repeats, shape, strict=True) for pair in (times, size)]
    apart = view.reshape(tuple(size if at % 2 else 1 for at, size in enumerate(pairs)))
    assert apart is not None
    return reader.reshape(apart.expand(tuple(pairs)), meta.shape)


@reads("permute")
def permute(reader: Reader, meta: Meta, self: Operand, dims: Sequence[int]) -> Operand:
    return (
        Constant(self.number, self.dtype, meta.shape)
        if isinstance(self, Constant)
        else reader.view(self).permute(dims)
    )


@reads("transpose.int", "transpose", "t")
def transpose(reader: Reader, meta: Meta, self: Operand, dim0: int = 0, dim1: int = 1) -> Operand:
    order = list(range(len(meta.shape)))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(reader, meta, self, order)


@reads("slice.Tensor")
def slice_(
    reader: Reader, meta: Meta, self: Operand, dim: int = 0, start: int | None = None,
    end: int | None = None, step: int = 1,
) -> Operand:  # fmt: skip
    if 0 in meta.shape:
        raise Unsupported("a slice that is empty")
    if isinstance(self, Constant):
        return Constant(self.number, self.dtype, meta.shape)
    view = reader.view(self)
    begin, _, stride = slice(start, end, step).indices(view.shape[dim])
    return view.slice(dim, begin, meta.shape[dim], stride)


@reads("select.int")
def select(reader: Reader, meta: Meta, self: Operand, dim: int, index: int) -> Operand:
    if isinstance(self, Constant):
        return Constant(self.number, self.dtype, meta.shape)
    view = reader.view(self)
    return view.slice(dim, index % view.shape[dim], 1).without(dim % len(view.shape))


@reads("split.Tensor", "split_with_sizes", "chunk", "unbind.int")
def parts(reader: Reader, meta: Meta, self: Operand, dim: int = 0, **_: Any) -> list[Operand]:
    result: list[Operand] = []
    start = 0
    for part in meta.parts:
        assert part is not None
        if isinstance(self, Constant):
            result.append(Constant(self.number, self.dtype, part.shape))
            continue
        view = reader.view(self)
        count = 1 if meta.name == "unbind.int" else part.shape[dim]
        piece = view.slice(dim, start, count)
        result.append(piece.without(dim % len(view.shape)) if meta.name == "unbind.int" else piece)
        start += count
    return result


@reads("unfold")
def windows(reader: Reader, meta: Meta, self: Operand, dimension: int, size: int, step: int) -> Operand:
    if isinstance(self, Constant):
        return Constant(self.number, self.dtype, meta.shape)
    view = reader.view(self)
    axis = dimension % len(view.shape)
    strides = [*view.strides, view.strides[axis]]
    strides[axis] *= step
    return TensorView(view.tensor, meta.shape, tuple(strides), view.offset)


@reads("flip")
def flip(reader: Reader, meta: Meta, self: Operand, dims: Sequence[int]) -> Operand:
    return self if isinstance(self, Constant) else reader.view(self).flip(dims)


@reads("diagonal")
def diagonal(reader: Reader, meta: Meta, self: Operand, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Operand:
    view = reader.view(self)
    first, second = dim1 % len(view.shape), dim2 % len(view.shape)
    start = view.offset + (offset * view.strides[second] if offset >= 0 else -offset * view.strides[first])
    step = view.strides[first] + view.strides[second]
    strides = [stride for axis, stride in enumerate(view.strides) if axis not in (first, second)]
    return TensorView(view.tensor, meta.shape, (*strides, step), start)


@reads("as_strided")
def as_strided(
    reader: Reader,
    meta: Meta,
    self: Operand,
    size: Any,
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Operand:
    view = reader.view(self)
    if not view.is_linear:
        raise Unsupported("as_strided of a view")
    return TensorView(view.tensor, meta.shape, tuple(stride), storage_offset or 0)


@reads("cat")
def concatenate(reader: Reader, meta: Meta, tensors: Sequence[Operand], dim: int = 0) -> Operand:
    tensors = [tensor for tensor in tensors if prod(tensor.shape) > 0]
    if len(tensors) == 1:
        return tensors[0]
    frame, start, placed = whole(Tensor(meta.shape, meta.dtype)), 0, []
    for tensor in tensors:
        placed.append((tensor, frame.slice(dim, start, tensor.shape[dim])))
        start += tensor.shape[dim]
    return reader.assemble(meta.shape, meta.dtype, placed)


@reads("constant_pad_nd")
def pad(reader: Reader, meta: Meta, self: Operand, pad: Sequence[int], value: Number = 0) -> Operand:
    view = reader.view(self)
    place = whole(Tensor(meta.shape, meta.dtype))
    background: list[tuple[Operand, TensorView]] = []
    for i in range(len(pad) // 2):
        axis = len(view.shape) - 1 - i
        before, after = pad[2 * i], pad[2 * i + 1]
        for start, count in ((0, before), (place.shape[axis] - after, after)):
            if count > 0:
                side = place.slice(axis, start, count)
                background.append((Constant(value, meta.dtype, side.shape), side))
        view = view.slice(axis, max(-before, 0), view.shape[axis] - max(-before, 0) - max(-after, 0))
        place = place.slice(axis, max(before, 0), view.shape[axis])
    return reader.assemble(meta.shape, meta.dtype, [*background, (view, place)])


@reads("slice_scatter")
def slice_scatter(
    reader: Reader, meta: Meta, self: Operand, src: Operand, dim: int = 0, start: int | None = None,
    end: int | None = None, step: int = 1,
) -> Operand:  # fmt: skip
    begin, _, stride = slice(start, end, step).indices(meta.shape[dim])
    return replaced(reader, meta, self, src, dim, begin, src.shape[dim], stride)


@reads("select_scatter")
def select_scatter(reader: Reader, meta: Meta, self: Operand, src: Operand, dim: int, index: int) -> Operand:
    wide = reader.reshape(
        src, tuple(1 if axis == dim % len(meta.shape) else size for axis, size in enumerate(meta.shape))
    )
    return replaced(reader, meta, self, wide, dim, index % meta.shape[dim], 1, 1)


def replaced(
    reader: Reader, meta: Meta, self: Operand, src: Operand, dim: int, begin: int, count: int, step: int
) -> Operand:
    """A copy of a tensor with another in the place of a part of it. Nothing is written twice."""
    frame, size = whole(Tensor(meta.shape, meta.dtype)), meta.shape[dim]
    end = min(begin + count * step, size)
    placed: list[tuple[Operand, TensorView]] = [(src, frame.slice(dim, begin, count, step))]
    # Before it, after it, and between its elements.
    rests = [(0, begin, 1), (end, size - end, 1)]
    rests += [(begin + more, -(-(end - begin - more) // step), step) for more in range(1, step)]
    for start, number, stride in rests:
        if number > 0:
            place = frame.slice(dim, start, number, stride)
            if isinstance(self, Constant):
                placed.append((Constant(self.number, self.dtype, place.shape), place))
            else:
                placed.append((reader.view(self).slice(dim, start, number, stride), place))
    return reader.assemble(meta.shape, meta.dtype, placed)
