"""The table of operators as torch.profiler's key_averages gives it, from the trace alone.

Self time is without children; a call of the runtime is a child of the operator that made it. Device time is that
of the kernels, copies and memsets launched directly (self) or by anything within (total). Memory likewise: what
was allocated less what was released. Host time is the profiled run's: for shares and ranks, not to be reported as
time.
"""

import msgspec
import numpy as np

from tare.errors import unknown
from tare.trace.naming import step_number
from tare.trace.nesting import innermost, nest, order, own_time
from tare.trace.tables import Integers, Mask, Spans, Trace
from tare.trace.windows import in_counted_steps


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """One name, all its calls; times in ns, memory in bytes."""

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
    """Sorted by any column, greatest first; `by_shape` keeps different input shapes apart.

    Of the whole trace, as key_averages has it; `counted` of the steps that count, as the breakdown has it."""
    if sort not in COLUMNS:
        raise unknown("column", sort, COLUMNS, "the table of operators")
    tree = _Tree(trace)
    keys = tree.name * (len(trace.texts) + 1) + (tree.dims + 1 if by_shape else 0)
    chosen = in_counted_steps(trace, tree.start) if counted else np.ones(len(keys), dtype=bool)
    rows = np.flatnonzero(chosen)
    found, group = np.unique(keys[rows], return_inverse=True)
    count = len(found)

    def add(values: Integers) -> list[int]:
        sums = np.zeros(count, dtype=np.int64)
        np.add.at(sums, group, values[rows])
        return [int(value) for value in sums.tolist()]

    # What a twin holds is its parent's own; its totals are in its parent's already.
    once = (~tree.twin_of(chosen)).astype(np.int64)
    figures = {
        "calls": add(once),
        "host_self": add(tree.own),
        "host_total": add(tree.duration * once),
        "device_self": add(tree.device),
        "device_total": add(tree.upward(tree.device) * once),
    }
    for kind in ("host", "device"):
        self_bytes = tree.memory(cuda=int(kind == "device"))
        figures[f"{kind}_memory_self"] = add(self_bytes)
        figures[f"{kind}_memory_total"] = add(tree.upward(self_bytes) * once)
    first = np.zeros(count, dtype=np.int64)
    first[group[::-1]] = rows[::-1]
    names = [tree.label(int(row), by_shape) for row in first.tolist()]
    table = [
        Operator(name=names[i], **{field: values[i] for field, values in figures.items()}) for i in range(count)
    ]
    if sort == "name":
        return sorted(table, key=lambda row: row.name)
    return sorted(table, key=lambda row: (-getattr(row, sort), row.name))


class _Tree:
    """Operators, annotations and calls of the runtime in one stack a thread, as torch.profiler nests them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        marks = trace.annotations.take(trace.annotations.device == 0)
        tables: tuple[Spans, ...] = (trace.operators, marks, trace.calls)
        columns = {
            field: np.concatenate([getattr(table, field) for table in tables])
            for field in ("start", "end", "name", "thread")
        }
        dims = np.full(len(columns["start"]), -1, dtype=np.int64)
        dims[: len(trace.operators)] = trace.operators.dims
        rows = order(columns["start"], columns["end"])
        self.start, self.end, self.name, self.thread = (c[rows] for c in columns.values())
        self.dims = dims[rows]
        # torch's own table has one row for all steps.
        steps = [code for code, name in enumerate(trace.names) if step_number(name) is not None]
        self.name = np.where(np.isin(self.name, steps), steps[0] if steps else -1, self.name)
        self._steps = frozenset(steps)
        self.duration = self.end - self.start
        self._parent, self._depth = nest(self.thread, self.start, self.end)
        self.own = own_time(self.start, self.end, self._parent)
        self.twin = self._twins()
        for level in range(1, int(self._depth.max(initial=0)) + 1):
            rows_here = np.flatnonzero(self.twin & (self._depth == level))
            self.dims[rows_here] = self.dims[self._parent[rows_here]]
        self._position = np.empty(len(rows), dtype=np.int64)
        self._position[rows] = np.arange(len(rows))
        self.device = self._device(len(trace.operators) + len(marks))

    def _twins(self) -> Mask:
        """Only children that bear their parent's name: overloads that call each other, which torch counts once."""
        inner = self._parent >= 0
        children = np.bincount(self._parent[inner], minlength=len(self.start))
        above = np.maximum(self._parent, 0)
        if len(above) == 0:
            return inner
        return np.asarray(inner & (self.name == self.name[above]) & (children[above] == 1), dtype=bool)

    def twin_of(self, chosen: Mask) -> Mask:
        """The twins whose parents are chosen as well: our step is the twin of the profiler's, and begins later."""
        return np.asarray(self.twin & chosen[np.maximum(self._parent, 0)], dtype=bool)

    def _device(self, before_calls: int) -> Integers:
        """Device time by the operator that launched it; what a call outside any operator launched is the
        call's."""
        trace = self._trace
        sums = np.zeros(len(self.start), dtype=np.int64)
        known = np.flatnonzero(trace.device.call >= 0)
        call = trace.device.call[known]
        operator = trace.calls.operator[call]
        # The operators come first in the joint table, the calls behind the annotations.
        row = self._position[np.where(operator >= 0, operator, call + before_calls)]
        np.add.at(sums, row, trace.device.duration[known])
        return sums

    def upward(self, own: Integers) -> Integers:
        """Each row's own value and those of everything within it."""
        sums = own.copy()
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
