"""The static step: values at fixed places, operators in order. Everything the executor knows is in here."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

BYTES = {"f32": 4, "bf16": 2, "f16": 2, "i64": 8, "u8": 1}


@dataclass(eq=False)
class Value:
    """A tensor. `region` says whose memory it lives in: `arena` is planned by liveness, the others stay put."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    region: str = "arena"
    offset: int = 0
    # Channels last in memory, for images and filters; the shape is always the logical one.
    channels_last: bool = False
    # A view of another value's memory.
    base: "Value | None" = None
    content: Any = None

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.size * BYTES[self.dtype]

    @property
    def owner(self) -> "Value":
        return self if self.base is None else self.base.owner

    @property
    def strides(self) -> tuple[int, ...]:
        order = (0, 2, 3, 1) if self.channels_last else tuple(range(len(self.shape)))
        strides, step = [0] * len(self.shape), 1
        for axis in reversed(order):
            strides[axis] = step
            step *= self.shape[axis]
        return tuple(strides)


@dataclass(eq=False)
class Op:
    """One call. Inputs and outputs by their role; an absent role is simply not there."""

    kind: str
    inputs: dict[str, Value]
    outputs: dict[str, Value]
    attributes: dict[str, Any] = field(default_factory=dict)

    def values(self) -> Iterator[Value]:
        yield from self.inputs.values()
        yield from self.outputs.values()


@dataclass
class Parameter:
    """A weight as the model names it: what the operators read, its gradient and, where they differ, its master.
    One that is frozen has neither, nor has one that the loss does not depend on."""

    name: str
    value: Value
    trained: bool = True
    master: Value | None = None
    gradient: Value | None = None


@dataclass
class Step:
    """The forward pass as captured; lowering adds the backward pass, the update and the places in memory."""

    dtype: str
    channels_last: bool
    ops: list[Op] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    regions: dict[str, int] = field(default_factory=dict)

    def make(
        self, shape: Iterable[int], dtype: str = "", name: str = "", region: str = "arena", content: Any = None
    ) -> Value:
        shape = tuple(shape)
        last = self.channels_last and len(shape) == 4
        return Value(name, shape, dtype or self.dtype, region, channels_last=last, content=content)

    def emit(
        self, op_kind: str, inputs: Mapping[str, Value | None], outputs: dict[str, Value], **attributes: Any
    ) -> Op:
        given = {role: value for role, value in inputs.items() if value is not None}
        self.ops.append(Op(op_kind, given, outputs, attributes))
        return self.ops[-1]

    def values(self) -> list[Value]:
        """Every value once, in the order of first mention; a view's owner is among them."""
        seen: dict[int, Value] = {}
        mentioned = [v for op in self.ops for v in op.values()]
        kept = [v for p in self.parameters for v in (p.value, p.master, p.gradient) if v is not None]
        for value in [*self.inputs, *mentioned, *self.outputs, *kept]:
            seen.setdefault(id(value), value)
            seen.setdefault(id(value.owner), value.owner)
        return list(seen.values())
