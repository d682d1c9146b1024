"""Elements of a tensor in places that another tensor names: embeddings, gathers and scatters."""

from collections.abc import Sequence
from math import prod
from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.fusion.operators.pointwise import Number, fill
from tare.rungs.vendor.fusion.operators.products import times
from tare.rungs.vendor.fusion.reader import Meta, Reader, reads
from tare.rungs.vendor.fusion.tensors import (
    Constant,
    Gathered,
    Operand,
    Shape,
    TensorView,
    contiguous_strides,
    whole,
)
from tare.rungs.vendor.lowering.plan import HALVES

# What rows and elements of are added up.
FLOATS = ("f32", *HALVES)


@reads("embedding")
def embedding(reader: Reader, meta: Meta, weight: Operand, indices: Operand, **_: Any) -> Operand:
    return named_elements(reader, meta, weight, [indices])


@reads("index.Tensor", "_unsafe_index.Tensor")
def named_elements(reader: Reader, meta: Meta, self: Operand, indices: Sequence[Operand | None]) -> Operand:
    """As NumPy's: the dimensions of the indices replace the indexed ones, or come first if those are apart."""
    if any(place is not None and place.dtype == "u8" for place in indices):
        raise Unsupported("an index of truth values: how many elements it names is known only later")
    source = reader.view(self)
    named = [axis for axis, place in enumerate(indices) if place is not None]
    places = [place for place in indices if place is not None]
    import torch

    shape = tuple(torch.broadcast_shapes(*(place.shape for place in places)))
    together = named == list(range(named[0], named[0] + len(named)))
    at = named[0] if together else 0
    kept = [axis for axis in range(len(source.shape)) if axis not in named]
    strides = [source.strides[axis] for axis in kept]
    before, after = (strides[:at], strides[at:]) if together else ([], strides)
    view = TensorView(source.tensor, meta.shape, (*before, *([0] * len(shape)), *after), source.offset)
    pairs = [
        (_place(place, shape, len(after), meta.shape), source.strides[axis], source.shape[axis])
        for place, axis in zip(places, named, strict=True)
    ]
    return reader.pointwise("{0}", [Gathered(view, tuple(pairs))], meta.shape, self.dtype)


def _place(place: Operand, shape: Shape, after: int, whole_shape: Shape) -> Operand:
    """An index over the whole result: it varies along its own dimensions only."""
    if isinstance(place, Constant):
        return place
    assert isinstance(place, TensorView)
    spread = place.expand(shape)
    wide = TensorView(
        spread.tensor, (*spread.shape, *([1] * after)), (*spread.strides, *([0] * after)), spread.offset
    )
    return wide.expand(whole_shape)


@reads("index_select")
def index_select(reader: Reader, meta: Meta, self: Operand, dim: int, index: Operand) -> Operand:
    axis = dim % len(meta.shape)
    return named_elements(reader, meta, self, [*([None] * axis), index])


@reads("gather")
def gather(reader: Reader, meta: Meta, self: Operand, dim: int, index: Operand, **_: Any) -> Operand:
    source = reader.view(self)
    if not source.shape:
        return source
    axis = dim % len(source.shape)
    strides = tuple(0 if each == axis else stride for each, stride in enumerate(source.strides))
    view = TensorView(source.tensor, meta.shape, strides, source.offset)
    place = index if isinstance(index, Constant) else reader.view(index)
    return reader.pointwise(
        "{0}", [Gathered(view, ((place, source.strides[axis], source.shape[axis]),))], meta.shape, self.dtype
    )


@reads("scatter.value", "scatter.src")
def scatter(
    reader: Reader,
    meta: Meta,
    self: Operand,
    dim: int,
    index: Operand,
    value: Number = 0,
    src: Operand | None = None,
) -> Operand:
    axis, places = dim % len(meta.shape), reader.view(index)
    number = src if src is not None else fill(reader, meta, fill_value=value)
    if places.shape != tuple(1 if each == axis else size for each, size in enumerate(meta.shape)):
        return _into_elements(reader, meta, self, axis, places, number, "put")
    # Where each row names one place, an element is the value if it is in that place.
    import torch

    position = torch.arange(meta.shape[axis]).reshape(
        [-1 if each == axis else 1 for each in range(len(meta.shape))]
    )
    operands = [reader.constant(position), places, number, self]
    return reader.pointwise("{0} == {1} ? {2} : {3}", operands, meta.shape, meta.dtype)


@reads("scatter_add")
def scatter_add(reader: Reader, meta: Meta, self: Operand, dim: int, index: Operand, src: Operand) -> Operand:
    return _into_elements(reader, meta, self, dim % len(meta.shape), reader.view(index), src, "sum")


@reads("scatter_reduce.two")
def scatter_reduce(
    reader: Reader,
    meta: Meta,
    self: Operand,
    dim: int,
    index: Operand,
    src: Operand,
    reduce: str,
    include_self: bool = True,
) -> Operand:
    places = reader.view(index)
    return _into_elements(reader, meta, self, dim % len(meta.shape), places, src, reduce, include_self)


def _into_elements(
    reader: Reader,
    meta: Meta,
    base: Operand,
    axis: int,
    index: TensorView,
    src: Operand,
    operation: str,
    include_self: bool = True,
) -> Operand:
    """Elements put, added, ... into another tensor, in places that the index names along one dimension."""
    if meta.dtype not in FLOATS:
        raise Unsupported(f"a scatter of {meta.dtype}")
    if operation not in ("put", "sum", "mean", "amax", "amin"):
        raise Unsupported(f"a scatter that takes the {operation}")
    if any(each != axis and size != meta.shape[each] for each, size in enumerate(index.shape)):
        raise Unsupported("a scatter into a part of a tensor")
    if isinstance(src, Constant):
        source = reader.copy(src, index.shape)
    else:
        source = reader.view(src)
        # Elements beyond the index are not read.
        for each, size in enumerate(index.shape):
            source = source.slice(each, 0, size)
    inputs = {"x": reader.contiguous(source), "index": reader.contiguous(index)}
    inputs["base"] = reader.contiguous(base if isinstance(base, TensorView) else reader.copy(base, meta.shape))
    attributes = {"count": index.shape[axis], "inner": prod(meta.shape[axis + 1 :]), "operation": operation}
    call = reader.call("scatter", inputs, {"y": (meta.shape, meta.dtype)}, include_self=include_self, **attributes)
    return whole(call.results["y"])


@reads("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    reader: Reader, meta: Meta, weight: Operand, indices: Operand, offsets: Operand, mode: int = 0,
    per_sample_weights: Operand | None = None, include_last_offset: bool = False, padding_idx: int = -1, **_: Any,
) -> list[Operand]:  # fmt: skip
    bags, numbers = meta.parts[0], reader.contiguous(indices)
    assert bags is not None
    if mode not in (0, 1) or per_sample_weights is not None or include_last_offset or padding_idx >= 0:
        raise Unsupported("an embedding bag other than a sum or a mean of whole bags")
    inputs = {"w": reader.contiguous(weight), "index": numbers, "offsets": reader.contiguous(offsets)}
    results = {"y": (bags.shape, weight.dtype), "bag": (numbers.shape, "i64"), "sizes": (bags.shape[:1], "i64")}
    call = reader.call("bag_rows", inputs, results, mean=mode == 1)
    y, bag, sizes = (whole(call.results[role]) for role in results)
    return [y, bag, sizes, sizes]


@reads("_embedding_bag_dense_backward", "_embedding_bag_backward")
def embedding_bag_backward(
    reader: Reader, meta: Meta, grad: Operand, indices: Operand, offset2bag: Operand, bag_size: Operand,
    num_weights: int, mode: int, **_: Any,
) -> Operand:  # fmt: skip
    gradient = reader.view(grad)
    if mode == 1:
        sizes = reader.reshape(bag_size, (gradient.shape[0], 1))
        gradient = reader.pointwise(
            "{0} / float(max_({1}, int64_t(1)))", [gradient, sizes], gradient.shape, gradient.dtype
        )
    shape = (*indices.shape, gradient.shape[1])
    of_bag = Meta("", shape, gradient.dtype, [])
    rows = reader.view(named_elements(reader, of_bag, gradient, [offset2bag]))
    return embedding_backward(reader, meta, rows, indices, num_weights, -1, False)


@reads("index_add")
def index_add(
    reader: Reader,
    meta: Meta,
    self: Operand,
    dim: int,
    index: Operand,
    source: Operand,
    alpha: Number = 1,
) -> Operand:
    values = times(reader, source, alpha, source.shape)
    indices = [*([None] * (dim % len(meta.shape))), index]
    return index_put(reader, meta, self, indices, values, accumulate=True)


@reads("embedding_dense_backward")
def embedding_backward(
    reader: Reader, meta: Meta, grad_output: Operand, indices: Operand, num_weights: int, padding_idx: int,
    scale_grad_by_freq: bool,
) -> Operand:  # fmt: skip
    if scale_grad_by_freq:
        raise Unsupported("the gradient of an embedding that is scaled by frequency")
    rows, places = reader.contiguous(grad_output), reader.contiguous(indices)
    call = reader.call("add_rows", {"x": rows, "index": places}, {"y": (meta.shape, meta.dtype)}, skip=padding_idx)
    return whole(call.results["y"])


@reads("index_put", "_unsafe_index_put")
def index_put(
    reader: Reader,
    meta: Meta,
    self: Operand,
    indices: Sequence[Operand | None],
    values: Operand,
    accumulate: bool = False,
) -> Operand:
    """Rows along the indexed dimensions, which are joined and moved to the front for it."""
    named = [axis for axis, place in enumerate(indices) if place is not None]
    places = [place for place in indices if place is not None]
    if meta.dtype not in FLOATS or any(place.dtype == "u8" for place in places):
        raise Unsupported("index_put into anything but floats, or with truth values")
    axis, last = named[0], named[-1]
    if named != list(range(axis, last + 1)):
        raise Unsupported("index_put into dimensions that are apart")
    place = _joined_places(reader, places, meta.shape[axis : last + 1])
    joined = (*meta.shape[:axis], prod(meta.shape[axis : last + 1]), *meta.shape[last + 1 :])
    source = reader.view(reader.reshape(self, joined))
    order = [axis, *(each for each in range(len(joined)) if each != axis)]
    front = reader.contiguous(source.permute(order))
    # The values have the dimensions of the index where the result has the indexed one.
    shape = (*joined[:axis], *place.shape, *joined[axis + 1 :])
    spread = values if isinstance(values, Constant) else reader.view(values).expand(shape)
    moved = reader.copy(spread, shape) if isinstance(spread, Constant) else spread
    axes, end = list(range(len(shape))), axis + len(place.shape)
    rows = moved.permute([*axes[axis:end], *axes[:axis], *axes[end:]])
    inputs = {"x": reader.contiguous(rows), "index": reader.contiguous(place), "base": front}
    call = reader.call(
        "add_rows" if accumulate else "put_rows",
        inputs,
        {"y": (front.shape, meta.dtype)},
        skip=-1 if accumulate else 0,
    )
    result = whole(call.results["y"]).permute([order.index(each) for each in range(len(order))])
    return reader.reshape(result, meta.shape)


def _joined_places(reader: Reader, places: Sequence[Operand], sizes: Shape) -> Operand:
    """Indices of neighbouring dimensions as one index of both together."""
    if len(places) == 1:
        return places[0]
    import torch

    shape = tuple(torch.broadcast_shapes(*(place.shape for place in places)))
    terms = [
        f"place_({{{at}}}, {size}) * {stride}"
        for at, (size, stride) in enumerate(zip(sizes, contiguous_strides(sizes), strict=True))
    ]
    return reader.pointwise(" + ".join(terms), places, shape, "i64")
