"""A kernel before it is written in a language: its loops, its passes over a row, and where it reads and writes.

A kernel walks over rows. For each it makes one pass over the elements of the row for every reduction that needs
the one before it: a softmax takes three (the maximum, the sum, the quotient)."""

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from tare.rungs.vendor.fusion.groups import Group, access, own_access
from tare.rungs.vendor.fusion.tensors import Gathered, Pointwise, Reduction, Shape, Source, Tensor, TensorView


class FusedKernel:
    """`inputs` grows while the kernel is written, in the order in which its text first names them.

    `rows` and `row` are the sizes of the loops over the rows and over the elements of one, with neighbours joined
    where every access walks through both with one stride. `tiled`: its reductions go over columns."""

    def __init__(self, group: Group, stored: Iterable[Tensor]) -> None:
        self.group, self.stored = group, set(stored)
        self.names = {member: f"v{at}" for at, member in enumerate(group.members)}
        self.inputs: list[Tensor] = []
        self.outputs = [member for member in group.members if member in self.stored]
        self.reduces = any(group.reduced)
        self.tiled = self.reduces and not group.reduced[-1]
        # The pass in which a member is computed, and the one from which on it is known.
        self.level: dict[Tensor, int] = {}
        self.available: dict[Tensor, int] = {}
        for member in group.members:
            first = max((self.available[read] for read in member.reads() if read in self.names), default=0)
            self.level[member] = first
            self.available[member] = first + 1 if isinstance(member, Reduction) else first
        accesses = list(dict.fromkeys(self._accesses()))
        row_axes, element_axes = (
            _joined(
                group.dims, accesses, [axis for axis, reduced in enumerate(group.reduced) if reduced is wanted]
            )
            for wanted in (False, True)
        )
        self.rows, self.row = (tuple(size for _, size in axes) for axes in (row_axes, element_axes))
        self._strides = {
            each: (tuple(each[axis] for axis, _ in row_axes), tuple(each[axis] for axis, _ in element_axes))
            for each in accesses
        }

    @property
    def passes(self) -> range:
        return range(max(self.available.values()) + 1)

    @property
    def work(self) -> int:
        return max(prod(self.group.dims), 1)

    def strides(self, view: TensorView, full: bool) -> tuple[Shape, Shape]:
        """How a read moves with the loops over the rows, and with those over a row."""
        return self._strides[access(self.group, view, full)]

    def own_strides(self, member: Tensor) -> tuple[Shape, Shape, int]:
        """The same for the memory of a member, and its offset."""
        strides, offset = own_access(self.group, member)
        return (*self._strides[strides], offset)

    def is_full(self, member: Tensor) -> bool:
        return self.group.is_full(member)

    def input(self, tensor: Tensor) -> int:
        if tensor not in self.inputs:
            self.inputs.append(tensor)
        return self.inputs.index(tensor)

    def row_members(self, number: int) -> list[Pointwise]:
        """Those with one element for each row that are known from this pass on."""
        return [
            member
            for member in self.group.members
            if isinstance(member, Pointwise) and not self.is_full(member) and self.available[member] == number
        ]

    def reductions(self, number: int) -> list[Reduction]:
        return [each for each in self.group.members if isinstance(each, Reduction) and self.level[each] == number]

    def full_members(self, number: int, chosen: Iterable[Tensor]) -> list[Tensor]:
        """Those of the chosen with an element for each of a row that are computed in this pass."""
        wanted = set(chosen)
        return [
            each
            for each in self.group.members
            if each in wanted and self.is_full(each) and self.level[each] == number
        ]

    def needed_later(self) -> list[Pointwise]:
        """Members of a row that a later pass needs again and that are not stored anyway."""
        return [
            member
            for member in self.group.members
            if isinstance(member, Pointwise)
            and self.is_full(member)
            and member not in self.stored
            and any(
                member in other.reads() and self.level[other] > self.level[member] for other in self.group.members
            )
        ]

    def _accesses(self) -> Iterator[Shape]:
        for member in self.group.members:
            if member in self.stored:
                yield own_access(self.group, member)[0]
            if isinstance(member, Reduction):
                yield from self._reads((member.operand,), True)
            elif isinstance(member, Pointwise):
                yield from self._reads(member.operands, self.is_full(member))

    def _reads(self, operands: Iterable[Source], full: bool) -> Iterator[Shape]:
        for operand in operands:
            if isinstance(operand, TensorView) and operand.tensor not in self.names:
                yield access(self.group, operand, full)
            elif isinstance(operand, Gathered):
                yield access(self.group, operand.view, full)
                yield from self._reads((index for index, _, _ in operand.indices), full)


def _joined(dims: Shape, accesses: Sequence[Shape], axes: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of the axis whose stride counts, and the size."""
    joined: list[tuple[int, int]] = []
    for axis in axes:
        size = dims[axis]
        if joined and all(each[joined[-1][0]] == each[axis] * size for each in accesses):
            joined[-1] = (axis, joined[-1][1] * size)
        else:
            joined.append((axis, size))
    return joined
