"""The operator table, as torch.profiler's key_averages gives it, from the trace alone.

Self time excludes children; a runtime call is a child of the operator that made it. Device time is that of the
kernels, copies and memsets launched directly (self) or by anything inside (total). Memory is what was allocated
less what was released. Host time is that of the profiled run: use it for shares and ranks, do not report it as
time.
"""

import msgspec
import numpy as np

from tare.trace.intervals import Mask
from tare.trace.names import step_number
from tare.trace.nesting import innermost, self_times
from tare.trace.tables import Integers, MergedSpans, Trace
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


def operator_table(trace: Trace, counted: bool = False) -> list[Operator]:
    """Sorted by device self time, or by host self time for a trace without a device, in descending order.

    The table covers the whole trace, as key_averages does; `counted` restricts it to the counted steps.
    """
    tree = _CallTree(trace)
    chosen = in_counted_steps(trace, tree.start) if counted else np.ones(len(tree.start), dtype=bool)
    codes, group = np.unique(tree.name[chosen], return_inverse=True)

    def add(values: Integers) -> list[int]:
        sums = np.zeros(len(codes), dtype=np.int64)
        np.add.at(sums, group, values[chosen])
        return [int(value) for value in sums.tolist()]

    # The totals of a redispatch are part of its parent's totals.
    once = (~tree.redispatches(chosen)).astype(np.int64)
    host_memory, device_memory = tree.memory(cuda=0), tree.memory(cuda=1)
    figures = {
        "calls": add(once),
        "host_self": add(self_times(tree.start, tree.end, tree.parent)),
        "host_total": add((tree.end - tree.start) * once),
        "device_self": add(tree.device),
        "device_total": add(tree.sum_up(tree.device) * once),
        "host_memory_self": add(host_memory),
        "host_memory_total": add(tree.sum_up(host_memory) * once),
        "device_memory_self": add(device_memory),
        "device_memory_total": add(tree.sum_up(device_memory) * once),
    }
    table = [
        Operator(name=tree.label(code), **{field: values[i] for field, values in figures.items()})
        for i, code in enumerate(codes.tolist())
    ]
    sort = "device_self" if trace.has_device else "host_self"
    return sorted(table, key=lambda row: (-getattr(row, sort), row.name))


class _CallTree(MergedSpans):
    """Operators, annotations and runtime calls in one stack per thread, as torch.profiler nests them."""

    def __init__(self, trace: Trace) -> None:
        annotations = trace.annotations.take(trace.annotations.device == 0)
        super().__init__(trace.operators, annotations, trace.calls)
        self._trace = trace
        # torch's table has one row for all steps.
        steps = [code for code, name in enumerate(trace.names) if step_number(name) is not None]
        self._step = steps[0] if steps else -1
        self.name = np.where(np.isin(self.name, steps), self._step, self.name)
        self.device = self._device_time(len(trace.operators) + len(annotations))

    def redispatches(self, chosen: Mask) -> Mask:
        """Only children with the name of their parent: overloads that call each other, which torch counts once.

        The parent must be chosen too: tare's step annotation lies in the profiler's.
        """
        inner = self.parent >= 0
        inner[inner] = chosen[self.parent[inner]]
        above = self.parent[inner]
        children = np.bincount(self.parent[self.parent >= 0], minlength=len(self.start))
        inner[inner] = (self.name[inner] == self.name[above]) & (children[above] == 1)
        return inner

    def _device_time(self, calls_offset: int) -> Integers:
        """Device time of the operator that launched it, or of the call where that is in no operator."""
        device = self._trace.device
        launched = np.flatnonzero(device.call >= 0)
        call = device.call[launched]
        operator = self._trace.calls.operator[call]
        position = np.empty(len(self.rows), dtype=np.int64)
        position[self.rows] = np.arange(len(self.rows))
        sums = np.zeros(len(self.rows), dtype=np.int64)
        row = position[np.where(operator >= 0, operator, call + calls_offset)]
        np.add.at(sums, row, device.duration[launched])
        return sums

    def sum_up(self, values: Integers) -> Integers:
        """The value of each row plus those of all its descendants."""
        sums = values.copy()
        for level in range(int(self.depth.max(initial=0)), 0, -1):
            rows = np.flatnonzero(self.depth == level)
            np.add.at(sums, self.parent[rows], sums[rows])
        return sums

    def memory(self, cuda: int) -> Integers:
        events = self._trace.memory
        rows = np.flatnonzero(events.cuda == cuda)
        owner = innermost(self.thread, self.start, self.end, self.parent, events.thread[rows], events.start[rows])
        sums = np.zeros(len(self.start), dtype=np.int64)
        np.add.at(sums, owner[owner >= 0], events.bytes[rows][owner >= 0])
        return sums

    def label(self, code: int) -> str:
        name = self._trace.names[code]
        return name.partition("#")[0] + "*" if code == self._step else name
