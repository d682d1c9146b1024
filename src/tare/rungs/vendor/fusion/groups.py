"""Which elementwise expressions and reductions one kernel computes.

A kernel walks over one space of elements: rows, and the elements of a row that its reductions go over. A tensor
of the group has either one element for each of the space ("full") or one for each row. It may read another of its
group only at the same place; everything else it reads from memory, at any strides. A softmax, a layer norm with
its residual sum, and the gradient of either are one kernel each.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from tare.rungs.vendor.fusion.tensors import (
    Assembled,
    Gathered,
    LibraryCall,
    Pointwise,
    Reduction,
    Result,
    Shape,
    Tensor,
    TensorView,
    common_dims,
    contiguous_strides,
    is_contiguous,
    strides_over,
    views,
)

# Compilers handle larger kernels badly, and a GPU passes a limited number of arguments.
MOST_MEMBERS = 64
MOST_BUFFERS = 40


@dataclass(eq=False)
class Group:
    """`dims` divide the space; those that the reductions go over are marked in `reduced`."""

    members: list[Tensor] = field(default_factory=list)
    dims: Shape = ()
    reduced: tuple[bool, ...] = ()

    @property
    def rows(self) -> int:
        return prod(size for size, reduced in zip(self.dims, self.reduced, strict=True) if not reduced)

    @property
    def row_dims(self) -> Shape:
        return tuple(size for size, reduced in zip(self.dims, self.reduced, strict=True) if not reduced)

    def is_full(self, tensor: Tensor) -> bool:
        """Whether a member has an element for each of the space, not only one for each row."""
        return not isinstance(tensor, Reduction) and (tensor.size == prod(self.dims) or not any(self.reduced))


Item = Group | LibraryCall


def make_groups(tensors: Sequence[Tensor], results: Iterable[Tensor]) -> list[Item]:
    """The kernels and calls that make the results, in an order in which they can run."""
    needed = _needed(results)
    grouping = _Grouping()
    for tensor in tensors:
        if tensor in needed:
            grouping.add(tensor)
    return grouping.ordered()


def _needed(results: Iterable[Tensor]) -> set[Tensor]:
    needed: set[Tensor] = set()
    pending = list(results)
    while pending:
        tensor = pending.pop()
        if tensor not in needed:
            needed.add(tensor)
            pending += tensor.reads()
            if isinstance(tensor, Result):
                # All results of a call are made at once.
                pending += tensor.call.results.values()
    return needed


class _Grouping:
    def __init__(self) -> None:
        self._item: dict[Tensor, Item] = {}
        self._items: dict[Item, None] = {}
        # Everything that must run before an item.
        self._before: dict[Item, set[Item]] = {}
        # The last group that read what is stored: another reader may save reading it again.
        self._last_reader: dict[TensorView, Group] = {}

    def add(self, tensor: Tensor) -> None:
        if isinstance(tensor, Result):
            self._item[tensor] = tensor.call
            self._items[tensor.call] = None
            self._wait(tensor.call, tensor)
        elif isinstance(tensor, Pointwise | Reduction):
            self._place(tensor)
        # What is stored already or is put together from parts has no item of its own.

    def _place(self, tensor: Tensor) -> None:
        sources = {self._item.get(read) for read in tensor.reads()}
        near = [item for item in reversed(self._items) if isinstance(item, Group) and item in sources]
        others = [self._last_reader.get(view) for view in member_views(tensor)]
        joined: Group | None = None
        for group in [*near, *(other for other in others if other in self._items and other not in near)]:
            assert group is not None
            if joined is not None and group is not joined:
                self._merge(group, joined)
            elif joined is None and self._joins(group, tensor):
                joined = group
        if joined is None:
            joined = Group()
            self._items[joined] = None
            fits = self._joins(joined, tensor)
            assert fits
        for view in member_views(tensor):
            self._last_reader[view] = joined

    def _joins(self, group: Group, tensor: Tensor) -> bool:
        space = joined_space(group, tensor)
        if space is None or self._would_wait_for_itself(group, tensor):
            return False
        group.dims, group.reduced = space
        group.members.append(tensor)
        self._item[tensor] = group
        self._wait(group, tensor)
        return True

    def _wait(self, item: Item, tensor: Tensor) -> None:
        """An item that makes a tensor runs after whatever the tensor reads, and so does all that runs after it."""
        sources = self._sources(tensor) - {item}
        new = sources.union(*(self._before[source] for source in sources))
        known = self._before.setdefault(item, set())
        if not new <= known:
            known |= new
            for before in self._before.values():
                if item in before:
                    before |= new

    def _merge(self, other: Group, group: Group) -> None:
        """Both are kernels of one that has just joined `group`: perhaps one is enough."""
        if (
            other not in self._items
            or len(other.members) + len(group.members) > MOST_MEMBERS
            or self._between(other, group)
        ):
            return
        if any(self._reads_parts_of(tensor, other) for tensor in group.members) or any(
            self._reads_parts_of(tensor, group) for tensor in other.members
        ):
            return
        order = {tensor: at for at, tensor in enumerate(self._item)}
        merged = Group()
        for tensor in sorted([*other.members, *group.members], key=lambda member: order[member]):
            space = joined_space(merged, tensor)
            if space is None:
                return
            merged.dims, merged.reduced = space
            merged.members.append(tensor)
        group.members, group.dims, group.reduced = merged.members, merged.dims, merged.reduced
        for tensor in other.members:
            self._item[tensor] = group
        del self._items[other]
        new = (self._before[group] | self._before.pop(other)) - {group, other}
        self._before[group] = new
        for before in self._before.values():
            if other in before or group in before:
                before.discard(other)
                before |= {group} | new

    def _dependencies(self, item: Item) -> set[Item]:
        read = item.members if isinstance(item, Group) else item.results.values()
        return {source for tensor in read for source in self._sources(tensor)} - {item}

    def _sources(self, tensor: Tensor) -> set[Item]:
        found: set[Item] = set()
        for read in tensor.reads():
            if isinstance(read, Assembled):
                found |= self._sources(read)
                found |= {self._item[part] for part in read.parts if part in self._item}
            elif read in self._item:
                found.add(self._item[read])
        return found

    def _would_wait_for_itself(self, group: Group, tensor: Tensor) -> bool:
        """Whether something else that the tensor reads can only run after the group."""
        waits = any(source is not group and group in self._before[source] for source in self._sources(tensor))
        return waits or self._reads_parts_of(tensor, group)

    def _reads_parts_of(self, tensor: Tensor, group: Group) -> bool:
        """Whether it reads a tensor that the group puts together, and must wait for all of its parts."""
        assembled = [read for read in tensor.reads() if isinstance(read, Assembled)]
        return any(self._item.get(part) is group for read in assembled for part in read.parts)

    def _between(self, first: Group, second: Group) -> bool:
        """Whether something else must run between the two, in either order."""
        pairs = ((first, second), (second, first))
        return any(other in self._before[item] for one, other in pairs for item in self._before[one] - {other})

    def ordered(self) -> list[Item]:
        """Each after everything that it reads, otherwise in the order of the graph."""
        done: dict[Item, None] = {}

        def visit(item: Item) -> None:
            pending = [(item, iter(sorted(self._dependencies(item), key=place.__getitem__)))]
            while pending:
                current, sources = pending[-1]
                following = next((source for source in sources if source not in done), None)
                if following is None:
                    done[current] = None
                    pending.pop()
                else:
                    pending.append((following, iter(sorted(self._dependencies(following), key=place.__getitem__))))

        place = {item: at for at, item in enumerate(self._items)}
        for item in self._items:
            if item not in done:
                visit(item)
        return list(done)


def joined_space(group: Group, tensor: Tensor) -> tuple[Shape, tuple[bool, ...]] | None:
    """The dimensions of the group's space with a tensor in it, or None where the tensor does not fit."""
    if len(group.members) >= MOST_MEMBERS:
        return None
    if len({view.tensor for member in (*group.members, tensor) for view in member_views(member)}) > MOST_BUFFERS:
        return None
    if isinstance(tensor, Reduction):
        space = _space_with_reduction(group, tensor)
    elif isinstance(tensor, Pointwise):
        space = _space_with_pointwise(group, tensor)
    else:
        return None
    if space is None:
        return None
    tried = Group([*group.members, tensor], *space)
    members = set(tried.members)
    fits = all(_at_the_same_place(tried, tensor, view) for view in member_views(tensor) if view.tensor in members)
    gathers = isinstance(tensor, Pointwise) and _gathers_from(tensor, members)
    return space if fits and not gathers else None


def _space_with_reduction(group: Group, tensor: Reduction) -> tuple[Shape, tuple[bool, ...]] | None:
    shape = tensor.operand.shape
    marks = tuple(axis in tensor.axes for axis in range(len(shape)))
    if not group.members:
        return _without_ones(shape, marks)
    if prod(shape) != prod(group.dims):
        return None
    dims = common_dims(group.dims, shape)
    if dims is None:
        return None
    own = _marks_over(dims, shape, marks)
    if any(group.reduced) and _marks_over(dims, group.dims, group.reduced) != own:
        return None
    if not any(group.reduced) and not _is_trailing(own):
        # Elements that are stored by rows and summed by columns are better read again.
        return None
    return dims, own


def _space_with_pointwise(group: Group, tensor: Pointwise) -> tuple[Shape, tuple[bool, ...]] | None:
    if not group.members:
        dims = tuple(size for size in tensor.shape if size > 1)
        return dims, (False,) * len(dims)
    if tensor.size == prod(group.dims):
        common = common_dims(group.dims, tensor.shape)
        return None if common is None else (common, _marks_over(common, group.dims, group.reduced))
    if any(group.reduced) and tensor.size == group.rows:
        rows = common_dims(group.row_dims, tensor.shape)
        if rows is None:
            return None
        if rows == group.row_dims:
            return group.dims, group.reduced
        return _with_divided_rows(group, rows)
    return None


def _with_divided_rows(group: Group, rows: Shape) -> tuple[Shape, tuple[bool, ...]]:
    """The group's dimensions with those of the rows divided further."""
    remaining = list(rows)
    dims: list[int] = []
    marks: list[bool] = []
    for size, reduced in zip(group.dims, group.reduced, strict=True):
        if reduced:
            dims.append(size)
            marks.append(True)
            continue
        pieces = 1
        while pieces < size:
            piece = remaining.pop(0)
            dims.append(piece)
            marks.append(False)
            pieces *= piece
    return tuple(dims), tuple(marks)


def _without_ones(shape: Shape, marks: Sequence[bool]) -> tuple[Shape, tuple[bool, ...]]:
    kept = [(size, mark) for size, mark in zip(shape, marks, strict=True) if size > 1]
    return tuple(size for size, _ in kept), tuple(mark for _, mark in kept)


def _marks_over(dims: Shape, shape: Shape, marks: Sequence[bool]) -> tuple[bool, ...]:
    """The marks of a shape over the dimensions that it is divided into."""
    return tuple(bool(stride) for stride in strides_over(dims, shape, tuple(int(mark) for mark in marks)))


def _is_trailing(marks: Sequence[bool]) -> bool:
    return list(marks) == sorted(marks)


def member_views(tensor: Tensor) -> list[TensorView]:
    if isinstance(tensor, Reduction):
        return [tensor.operand]
    return list(views(tensor.operands)) if isinstance(tensor, Pointwise) else []


def _gathers_from(tensor: Pointwise, members: set[Tensor]) -> bool:
    """Whether it reads elements of the group in places that other elements name."""
    gathered = [operand.view.tensor for operand in tensor.operands if isinstance(operand, Gathered)]
    return any(source in members for source in gathered)


def _at_the_same_place(group: Group, reader: Tensor, view: TensorView) -> bool:
    """Whether a member reads another one only at its own place."""
    reads_all = isinstance(reader, Reduction) or group.is_full(reader)
    if group.is_full(view.tensor):
        return reads_all and view.is_linear
    if not reads_all:
        return view.is_linear
    # One element for each row: the same for all elements of the row.
    strides = strides_over(group.dims, view.shape, view.strides)
    over_row = [stride for stride, reduced in zip(strides, group.reduced, strict=True) if reduced]
    over_rows = [stride for stride, reduced in zip(strides, group.reduced, strict=True) if not reduced]
    return view.offset == 0 and not any(over_row) and is_contiguous(group.row_dims, over_rows)


def access(group: Group, view: TensorView, is_full: bool) -> Shape:
    """The strides of a view over the group's dimensions; zero along a row for what has one element for each."""
    if is_full:
        return strides_over(group.dims, view.shape, view.strides)
    rows = iter(strides_over(group.row_dims, view.shape, view.strides))
    return tuple(0 if reduced else next(rows) for reduced in group.reduced)


def own_access(group: Group, tensor: Tensor) -> tuple[Shape, int]:
    """Where a member's elements are stored: strides over the group's dimensions, and an offset."""
    if isinstance(tensor, Pointwise) and tensor.target is not None:
        _, strides, offset = tensor.target
        return access(group, TensorView(tensor, tensor.shape, strides, offset), group.is_full(tensor)), offset
    own = TensorView(tensor, tensor.shape, contiguous_strides(tensor.shape))
    return access(group, own, group.is_full(tensor)), 0
