"""The operator table, as torch.profiler's key_averages gives it, from the trace alone.

Self time excludes children; a runtime call is a child of the operator that made it. Device time is that of the
kernels, copies and memsets launched directly (self) or by anything inside (total). Memory is what was allocated
less what was released. Host time is that of the profiled run: use it for shares and ranks, do not report it as
time.
"""

import msgspec
import numpy as np

from tare.trace.intervals import Integers, Mask
from tare.trace.names import step_number
from tare.trace.spans import NestedSpans, merge, rows_by_value, sum_by
from tare.trace.tables import Trace
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
    tables = (trace.operators, trace.annotations.take(trace.annotations.device == 0), trace.calls)
    columns, rows = merge(*tables)
    steps = trace.matching(NestedSpans(**columns), lambda name: step_number(name) is not None)
    # torch's table has one row for all steps.
    step = int(columns["name"][steps].min(initial=len(trace.names)))
    columns["name"][steps] = step
    tree = NestedSpans(**columns)
    chosen = in_counted_steps(trace, tree.start) if counted else np.ones(len(tree), dtype=bool)
    # The totals of a redispatch are part of its parent's totals.
    once = (~_redispatches(tree, chosen)).astype(np.int64)
    own = {
        "host": tree.self_time,
        "device": _device_time(trace, rows, len(tables[0]) + len(tables[1])),
        "host_memory": _memory(trace, tree, cuda=0),
        "device_memory": _memory(trace, tree, cuda=1),
    }
    figures = {"calls": once}
    levels = rows_by_value(tree.depth)
    for kind, values in own.items():
        figures[f"{kind}_self"] = values
        figures[f"{kind}_total"] = once * (tree.duration if kind == "host" else _sum_up(tree, levels, values))
    at = np.flatnonzero(chosen)
    name = tree.name[at]
    sums = {field: sum_by(name, values[at], len(trace.names)) for field, values in figures.items()}
    table = [
        Operator(
            name=trace.names[code] if code != step else trace.names[code].partition("#")[0] + "*",
            **{field: int(values[code]) for field, values in sums.items()},
        )
        for code in np.flatnonzero(np.bincount(name)).tolist()
    ]
    sort = "device_self" if trace.has_device else "host_self"
    return sorted(table, key=lambda row: (-getattr(row, sort), row.name))


def _redispatches(tree: NestedSpans, chosen: Mask) -> Mask:
    """Only children with the name of their parent: overloads that call each other, which torch counts once.

    The parent must be chosen too: tare's step annotation lies in the profiler's.
    """
    inner = tree.parent >= 0
    above = tree.parent[inner]
    children = np.bincount(above, minlength=len(tree))
    inner[inner] = chosen[above] & (tree.name[inner] == tree.name[above]) & (children[above] == 1)
    return inner


def _device_time(trace: Trace, rows: Integers, calls_offset: int) -> Integers:
    """Device time of the operator that launched it, or of the call where that is in no operator."""
    launched = np.flatnonzero(trace.device.call >= 0)
    call = trace.device.call[launched]
    operator = trace.calls.operator[call]
    owner = np.where(operator >= 0, operator, call + calls_offset)
    return sum_by(owner, trace.device.duration[launched], len(rows))[rows]


def _memory(trace: Trace, tree: NestedSpans, cuda: int) -> Integers:
    events = trace.memory
    rows = np.flatnonzero(events.cuda == cuda)
    owner = tree.innermost(events.thread[rows], events.start[rows])
    return sum_by(owner[owner >= 0], events.bytes[rows][owner >= 0], len(tree))


def _sum_up(tree: NestedSpans, levels: dict[int, Integers], values: Integers) -> Integers:
    """The value of each row plus those of all its descendants. `levels` are the rows of each depth."""
    if not values.any():
        return values
    sums = values.copy()
    for level in range(int(tree.depth.max(initial=0)), 0, -1):
        rows = levels[level]
        np.add.at(sums, tree.parent[rows], sums[rows])
    return sums
