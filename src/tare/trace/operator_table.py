"""The operator table, as torch.profiler's key_averages gives it, from the trace alone.

Self time excludes children; a runtime call is a child of the operator that made it. Device time is that of the
kernels, copies and memsets launched directly (self) or by anything inside (total). Memory is what was allocated
less what was released. Host time is that of the profiled run: use it for shares and ranks, do not report it as
time.
"""

import msgspec
import numpy as np

from tare.errors import unknown
from tare.trace.intervals import Mask
from tare.trace.names import step_number
from tare.trace.nesting import innermost, nest, order, self_times
from tare.trace.tables import Integers, Spans, Trace
from tare.trace.windows import in_counted_steps


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """All calls of one name; times in ns, memory in bytes."""

    name: str
    calls: int
    host_self: int
    host_total: int
    device_self: int
    device_total: int
    host_memory_self: int
    host_memory_total: int
    device_memory_self: int
    device_memory_total: int


COLUMNS = Operator.__struct_fields__


def operator_table(
    trace: Trace, sort: str = "device_self", by_shape: bool = False, counted: bool = False
) -> list[Operator]:
    """Sorted by any column in descending order. `by_shape` separates calls with different input shapes.

    The table covers the whole trace, as key_averages does; `counted` restricts it to the counted steps.
    """
    if sort not in COLUMNS:
        raise unknown("column", sort, COLUMNS, "the table of operators")
    tree = _CallTree(trace)
    keys = tree.name * (len(trace.texts) + 1) + (tree.dims + 1 if by_shape else 0)
    chosen = in_counted_steps(trace, tree.start) if counted else np.ones(len(keys), dtype=bool)
    rows = np.flatnonzero(chosen)
    _, first, group = np.unique(keys[rows], return_index=True, return_inverse=True)

    def add(values: Integers) -> list[int]:
        sums = np.zeros(len(first), dtype=np.int64)
        np.add.at(sums, group, values[rows])
        return [int(value) for value in sums.tolist()]

    # The totals of a redispatch are part of its parent's totals.
    once = (~tree.redispatches(chosen)).astype(np.int64)
    figures = {
        "calls": add(once),
        "host_self": add(tree.self_time),
        "host_total": add((tree.end - tree.start) * once),
        "device_self": add(tree.device),
        "device_total": add(tree.sum_up(tree.device) * once),
    }
    for kind in ("host", "device"):
        self_bytes = tree.memory(cuda=int(kind == "device"))
        figures[f"{kind}_memory_self"] = add(self_bytes)
        figures[f"{kind}_memory_total"] = add(tree.sum_up(self_bytes) * once)
    names = [tree.label(row, by_shape) for row in rows[first].tolist()]
    table = [
        Operator(name=name, **{field: values[i] for field, values in figures.items()})
        for i, name in enumerate(names)
    ]
    if sort == "name":
        return sorted(table, key=lambda row: row.name)
    return sorted(table, key=lambda row: (-getattr(row, sort), row.name))


class _CallTree:
    """Operators, annotations and runtime calls in one stack per thread, as torch.profiler nests them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        annotations = trace.annotations.take(trace.annotations.device == 0)
        tables: tuple[Spans, ...] = (trace.operators, annotations, trace.calls)
        start, end, name, thread = (
            np.concatenate([getattr(table, field) for table in tables])
            for field in ("start", "end", "name", "thread")
        )
        dims = np.full(len(start), -1, dtype=np.int64)
        dims[: len(trace.operators)] = trace.operators.dims
        rows = order(start, end)
        self.start, self.end, self.name, self.thread, self.dims = (
            c[rows] for c in (start, end, name, thread, dims)
        )
        # torch's table has one row for all steps.
        steps = [code for code, name in enumerate(trace.names) if step_number(name) is not None]
        self.name = np.where(np.isin(self.name, steps), steps[0] if steps else -1, self.name)
        self._steps = frozenset(steps)
        self._parent, self._depth = nest(self.thread, self.start, self.end)
        self.self_time = self_times(self.start, self.end, self._parent)
        self._redispatch = self._find_redispatches()
        for level in range(1, int(self._depth.max(initial=0)) + 1):
            inner = np.flatnonzero(self._redispatch & (self._depth == level))
            self.dims[inner] = self.dims[self._parent[inner]]
        position = np.empty(len(rows), dtype=np.int64)
        position[rows] = np.arange(len(rows))
        self.device = self._device_time(position, len(trace.operators) + len(annotations))

    def _find_redispatches(self) -> Mask:
        """Only children with the name of their parent: overloads that call each other, which torch counts once."""
        inner = self._parent >= 0
        children = np.bincount(self._parent[inner], minlength=len(self.start))
        above = np.maximum(self._parent, 0)
        if len(above) == 0:
            return inner
        return np.asarray(inner & (self.name == self.name[above]) & (children[above] == 1), dtype=bool)

    def redispatches(self, chosen: Mask) -> Mask:
        """The redispatches whose parents are chosen too: tare's step annotation lies in the profiler's."""
        return np.asarray(self._redispatch & chosen[np.maximum(self._parent, 0)], dtype=bool)

    def _device_time(self, position: Integers, calls_offset: int) -> Integers:
        """Device time of the operator that launched it, or of the call where that is in no operator."""
        trace = self._trace
        sums = np.zeros(len(self.start), dtype=np.int64)
        launched = np.flatnonzero(trace.device.call >= 0)
        call = trace.device.call[launched]
        operator = trace.calls.operator[call]
        row = position[np.where(operator >= 0, operator, call + calls_offset)]
        np.add.at(sums, row, trace.device.duration[launched])
        return sums

    def sum_up(self, values: Integers) -> Integers:
        """The value of each row plus those of all its descendants."""
        sums = values.copy()
        for level in range(int(self._depth.max(initial=0)), 0, -1):
            rows = np.flatnonzero(self._depth == level)
            np.add.at(sums, self._parent[rows], sums[rows])
        return sums

    def memory(self, cuda: int) -> Integers:
        events = self._trace.memory
        rows = np.flatnonzero(events.cuda == cuda)
        owner = innermost(self.thread, self.start, self.end, self._parent, events.thread[rows], events.start[rows])
        sums = np.zeros(len(self.start), dtype=np.int64)
        np.add.at(sums, owner[owner >= 0], events.bytes[rows][owner >= 0])
        return sums

    def label(self, row: int, by_shape: bool) -> str:
        code = int(self.name[row])
        name = self._trace.names[code]
        if code in self._steps:
            return name.partition("#")[0] + "*"
        if not by_shape or self.dims[row] < 0:
            return name
        return f"{name} {self._trace.texts[int(self.dims[row])].decode(errors='replace')}"
