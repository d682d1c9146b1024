"""The tensors of a step, each with how it is made, and strided views of them.

A tensor that is stored lies contiguously in memory, in the order of its shape. Everything that only rearranges a
tensor (permute, expand, slice, ...) is a view: a shape, strides and an offset in elements, as in torch.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from tare.rungs.vendor.lowering.origin import Origin
from tare.rungs.vendor.lowering.plan import Value

Shape = tuple[int, ...]


@dataclass(eq=False)
class Tensor:
    """Tensors are compared by identity. `value` is the memory of one that is stored."""

    shape: Shape
    dtype: str
    value: Value | None = field(default=None, kw_only=True)
    origin: Origin = field(default=Origin(), kw_only=True)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def reads(self) -> Iterator["Tensor"]:
        """The tensors that making this one reads."""
        yield from ()


@dataclass(frozen=True)
class TensorView:
    tensor: Tensor
    shape: Shape
    strides: Shape
    offset: int = 0

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_linear(self) -> bool:
        """Whether it is the whole tensor in its own order, perhaps with another shape."""
        return self.offset == 0 and self.size == self.tensor.size and is_contiguous(self.shape, self.strides)

    def permute(self, order: Sequence[int]) -> "TensorView":
        pick = [axis % len(self.shape) for axis in order]
        shape, strides = (tuple(sizes[axis] for axis in pick) for sizes in (self.shape, self.strides))
        return TensorView(self.tensor, shape, strides, self.offset)

    def expand(self, shape: Shape) -> "TensorView":
        """Broadcast to a shape, as torch does: new dimensions in front, those of one element repeated."""
        new = len(shape) - len(self.shape)
        strides = tuple(
            0 if axis < new or self.shape[axis - new] != size else self.strides[axis - new]
            for axis, size in enumerate(shape)
        )
        return TensorView(self.tensor, shape, strides, self.offset)

    def slice(self, axis: int, start: int, count: int, step: int = 1) -> "TensorView":
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[axis]
        shape[axis], strides[axis] = count, strides[axis] * step
        return TensorView(self.tensor, tuple(shape), tuple(strides), offset)

    def flip(self, axes: Iterable[int]) -> "TensorView":
        strides, offset = list(self.strides), self.offset
        for axis in {axis % len(self.shape) for axis in axes}:
            offset += (self.shape[axis] - 1) * strides[axis]
            strides[axis] = -strides[axis]
        return TensorView(self.tensor, self.shape, tuple(strides), offset)

    def without(self, axis: int) -> "TensorView":
        """Without a dimension, at the element that the offset names."""
        shape, strides = list(self.shape), list(self.strides)
        del shape[axis], strides[axis]
        return TensorView(self.tensor, tuple(shape), tuple(strides), self.offset)

    def reshape(self, shape: Shape) -> "TensorView | None":
        """None where no strides describe the result, so that it must be copied."""
        strides = reshaped_strides(self.shape, self.strides, shape)
        return None if strides is None else TensorView(self.tensor, shape, strides, self.offset)


@dataclass(frozen=True)
class Constant:
    """One number in every place."""

    number: float | int | bool
    dtype: str
    shape: Shape = ()


@dataclass(frozen=True)
class Gathered:
    """Elements whose place other operands say: each index moves by its stride within `size` elements, and a
    negative one counts from the end."""

    view: TensorView
    indices: "tuple[tuple[Source, int, int], ...]"

    @property
    def dtype(self) -> str:
        return self.view.dtype


# What an operator of the graph is given, and what an expression reads.
Operand = TensorView | Constant
Source = TensorView | Constant | Gathered


@dataclass(eq=False)
class Pointwise(Tensor):
    """Every element is one expression of C++ over the same element of the operands, whose shapes are this shape:
    `{0} + {1}`."""

    expression: str
    operands: tuple[Source, ...]
    # Where its elements go in a tensor that is put together from several: that tensor, strides and an offset.
    target: "tuple[Tensor, Shape, int] | None" = None

    @property
    def scaled(self) -> tuple[TensorView, float] | None:
        """What it copies into its own order, and by what number it multiplies that."""
        if self.target is None and self.operands and isinstance(source := self.operands[0], TensorView):
            if self.expression == "{0}" and source.dtype == self.dtype:
                return source, 1.0
            is_product = self.expression == "{0} * {1}" and source.dtype == self.dtype
            if is_product and isinstance(factor := self.operands[1], Constant):
                return source, float(factor.number)
        return None

    def reads(self) -> Iterator[Tensor]:
        yield from (view.tensor for view in views(self.operands))


@dataclass(eq=False)
class Reduction(Tensor):
    """A sum, maximum, ... of a view over some of its dimensions, which the shape lacks."""

    operation: str
    operand: TensorView
    axes: frozenset[int]

    def reads(self) -> Iterator[Tensor]:
        yield self.operand.tensor


@dataclass(eq=False)
class Assembled(Tensor):
    """A tensor whose parts are computed into their places: a concatenation, padding."""

    parts: list[Pointwise] = field(default_factory=list)

    def reads(self) -> Iterator[Tensor]:
        yield from self.parts


@dataclass(eq=False)
class Result(Tensor):
    """What a call of a library makes."""

    call: "LibraryCall"
    role: str = "y"

    def reads(self) -> Iterator[Tensor]:
        yield from (view.tensor for view in self.call.inputs.values())


@dataclass(eq=False)
class LibraryCall:
    """An op of the plan. Its inputs are whole tensors, or, with strides among its attributes, views of them."""

    kind: str
    inputs: dict[str, TensorView]
    attributes: dict[str, object] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)
    origin: Origin = field(default=Origin())


def views(operands: Iterable[Source]) -> Iterator[TensorView]:
    for operand in operands:
        if isinstance(operand, TensorView):
            yield operand
        elif isinstance(operand, Gathered):
            yield operand.view
            yield from views(index for index, _, _ in operand.indices)


def whole(tensor: Tensor) -> TensorView:
    return TensorView(tensor, tensor.shape, contiguous_strides(tensor.shape))


def contiguous_strides(shape: Sequence[int]) -> Shape:
    strides, stride = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis] = stride
        stride *= shape[axis]
    return tuple(strides)


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    pairs = zip(shape, strides, contiguous_strides(shape), strict=True)
    return all(size == 1 or stride == expected for size, stride, expected in pairs)


def reshaped_strides(shape: Shape, strides: Shape, new: Shape) -> Shape | None:
    """Every run of dimensions that one stride walks through may be divided in another way."""
    if 0 in shape:
        return contiguous_strides(new)
    runs: list[list[int]] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = [runs[-1][0] * size, stride]
        else:
            runs.append([size, stride])
    result = [0] * len(new)
    # From the last dimension on: each takes its elements from the last run that still has some.
    remaining, stride = runs.pop() if runs else (1, 0)
    for axis in reversed(range(len(new))):
        if new[axis] == 1:
            continue
        if remaining == 1 and runs:
            remaining, stride = runs.pop()
        if remaining % new[axis]:
            return None
        result[axis] = stride
        stride *= new[axis]
        remaining //= new[axis]
    return tuple(result)


def common_dims(first: Iterable[int], second: Iterable[int]) -> Shape | None:
    """The coarsest dimensions that both shapes of one size can be divided into, without those of one element."""
    ends = {1}
    for shape in (first, second):
        end = 1
        for size in reversed(list(shape)):
            end *= size
            ends.add(end)
    ordered = sorted(ends)
    steps = list(zip(ordered[1:], ordered, strict=False))
    if any(end % start for end, start in steps):
        return None
    return tuple(end // start for end, start in reversed(steps))


def strides_over(dims: Shape, shape: Shape, strides: Shape) -> Shape:
    """The strides of a view over dimensions that its own are divided into."""
    result: list[int] = []
    axis, within = len(shape) - 1, 1
    for size in reversed(dims):
        while shape[axis] == 1 or within == shape[axis]:
            axis, within = axis - 1, 1
        result.append(strides[axis] * within)
        within *= size
    return tuple(reversed(result))
