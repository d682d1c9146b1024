"""Other shapes and places of the same numbers: views, orders of dimensions, pieces put together and taken out."""

from math import prod
from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.lowering.handlers import lowers
from tare.rungs.vendor.lowering.plan import Step, Value


@lowers("aten.view.default", "aten._unsafe_view.default")
def view(step: Step, self: Value, size: list[int]) -> Value:
    known = prod(n for n in size if n != -1)
    shape = tuple(self.size // known if n == -1 else n for n in size)
    # One pixel lies the same way in either order; more do not.
    if self.channels_last and prod(self.shape[2:]) > 1:
        self = _ordered(step, self, Value("", self.shape, self.dtype))
    if not (step.channels_last and len(shape) == 4):
        return Value("", shape, self.dtype, base=self.owner)
    plain = Value("", shape, self.dtype, channels_last=prod(shape[2:]) == 1, base=self.owner)
    return plain if plain.channels_last else _ordered(step, plain, step.make(shape, self.dtype))


@lowers("aten.reshape.default")
def reshape(step: Step, self: Value, shape: list[int]) -> Value:
    made: Value = view(step, self, shape)
    return made


@lowers("aten.flatten.using_ints")
def flatten(step: Step, self: Value, start_dim: int, end_dim: int) -> Value:
    first, last = start_dim % len(self.shape), end_dim % len(self.shape)
    made: Value = view(
        step, self, [*self.shape[:first], prod(self.shape[first : last + 1]), *self.shape[last + 1 :]]
    )
    return made


@lowers("aten.squeeze.dim")
def squeeze(step: Step, self: Value, dim: int) -> Value:
    at = dim % len(self.shape)
    if self.shape[at] != 1:
        return self
    made: Value = view(step, self, [*self.shape[:at], *self.shape[at + 1 :]])
    return made


@lowers("aten.unsqueeze.default")
def unsqueeze(step: Step, self: Value, dim: int) -> Value:
    at = dim % (len(self.shape) + 1)
    made: Value = view(step, self, [*self.shape[:at], 1, *self.shape[at:]])
    return made


@lowers("aten.permute.default")
def permute(step: Step, self: Value, dims: list[int]) -> Value:
    order = [d % len(self.shape) for d in dims]
    if len(order) > 6:
        raise Unsupported("aten.permute of more than six dimensions")
    return _ordered(step, self, step.make([self.shape[d] for d in order], self.dtype), order)


@lowers("aten.transpose.int")
def transpose(step: Step, self: Value, dim0: int, dim1: int) -> Value:
    order = list(range(len(self.shape)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    made: Value = permute(step, self, order)
    return made


def _ordered(step: Step, x: Value, y: Value, order: list[int] | None = None) -> Value:
    """Dimension d of the result is dimension order[d] of what it is made of."""
    if x.dtype != step.dtype:
        raise Unsupported(f"another order of {x.dtype} in a step of {step.dtype}")
    step.emit("reorder", {"x": x}, {"y": y}, order=order or list(range(len(x.shape))))
    return y


@lowers("aten.cat.default")
def concatenate(step: Step, tensors: list[Value], dim: int) -> Value:
    first = tensors[0]
    if any(t.dtype != first.dtype for t in tensors):
        raise Unsupported("aten.cat of different types")
    axis = dim % len(first.shape)
    shape = list(first.shape)
    shape[axis] = sum(t.shape[axis] for t in tensors)
    y = step.make(shape, first.dtype)
    at = 0
    for tensor in tensors:
        rows, inner = _around(y, axis)
        width, pitch = tensor.shape[axis] * inner, shape[axis] * inner
        places = {"from_pitch": width, "from_offset": 0, "to_pitch": pitch, "to_offset": at * inner}
        step.emit("copy_block", {"x": tensor}, {"y": y}, rows=rows, width=width, **places)
        at += tensor.shape[axis]
    return y


@lowers("aten.slice.Tensor")
def piece(step: Step, self: Value, dim: int, start: int | None, end: int | None, step_: int = 1) -> Value:
    axis = dim % len(self.shape)
    begin, stop, stride = slice(start, end, step_).indices(self.shape[axis])
    if stride != 1:
        raise Unsupported("aten.slice with a step")
    if stop <= begin:
        raise Unsupported("aten.slice that is empty")
    return _piece(step, self, axis, begin, stop - begin)


@lowers("aten.split.Tensor")
def split(step: Step, self: Value, split_size: int, dim: int) -> list[Value]:
    axis = dim % len(self.shape)
    return [
        _piece(step, self, axis, at, min(split_size, self.shape[axis] - at))
        for at in range(0, self.shape[axis], split_size)
    ]


def _piece(step: Step, x: Value, axis: int, start: int, length: int) -> Value:
    if length == x.shape[axis]:
        return x
    y = step.make([length if d == axis else n for d, n in enumerate(x.shape)], x.dtype)
    rows, inner = _around(x, axis)
    width, pitch = length * inner, x.shape[axis] * inner
    places = {"from_pitch": pitch, "from_offset": start * inner, "to_pitch": width, "to_offset": 0}
    step.emit("copy_block", {"x": x}, {"y": y}, rows=rows, width=width, **places)
    return y


def _around(value: Value, axis: int) -> tuple[int, int]:
    """How many rows there are before a dimension, and how many numbers behind it, as the value lies in memory."""
    order = [0, 2, 3, 1] if value.channels_last else list(range(len(value.shape)))
    at = order.index(axis)
    return prod(value.shape[d] for d in order[:at]), prod(value.shape[d] for d in order[at + 1 :])


@lowers("aten.clone.default")
def clone(step: Step, self: Value, memory_format: Any) -> Value:  # noqa: ARG001
    """Nothing in a step is changed in place, so that a copy is as good as the thing itself."""
    return self


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
