"""What takes the place of operators: the same ones with less to do, or one operator instead of several."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise

import msgspec
import numpy as np

from tare.findings.context import Context, flat
from tare.findings.replay import WhatIf
from tare.trace.intervals import Intervals, make, union
from tare.trace.tables import Integers

# What a kernel takes that has next to nothing to do.
SHORTEST_NS = 2_000
# 0 would drop an activity with its place in the order of its stream.
NEXT_TO_NOTHING = 1e-9


def shortened(context: Context, factors: Mapping[int, float]) -> WhatIf:
    """The change in which operators keep these shares of their time: of what they launched on the device, or
    without a device of their own."""
    rows = np.array(sorted(factors), dtype=np.int64)
    if context.trace.has_device:
        launched = context.activities_by(rows)
        return WhatIf(
            factors={
                activity: max(factors[row], NEXT_TO_NOTHING)
                for row, activities in launched.items()
                for activity in activities
            }
        )
    table = context.trace.operators
    kept = table.duration[rows] * np.array([factors[row] for row in rows.tolist()])
    return WhatIf(removed=make(table.start[rows] + kept.astype(np.int64), table.end[rows]))


def in_one(context: Context, groups: Iterable[tuple[Sequence[int], float]]) -> WhatIf:
    """The change in which each group of operators is one that takes so many nanoseconds, in the place of the
    longest of them."""
    groups = [(sorted(rows), left_ns) for rows, left_ns in groups if len(rows)]
    every = flat(rows for rows, _ in groups)
    if not context.trace.has_device:
        return WhatIf(removed=union(*(_but_longest(context, rows, left_ns) for rows, left_ns in groups)))
    device, launched = context.trace.device, context.activities_by(every)
    length = device.duration
    kept: dict[int, float] = {}
    removed: list[Intervals] = []
    gone: list[int] = []
    for rows, left_ns in groups:
        activities = list(chain.from_iterable(launched[row] for row in rows))
        longest = max(activities, key=length.__getitem__, default=-1)
        if longest >= 0:
            kept[longest] = max(left_ns / max(int(length[longest]), 1), NEXT_TO_NOTHING)
        keeper = next((row for row in rows if longest in launched[row]), -1)
        removed.append(_host(context, rows, keeper))
        gone += [activity for activity in activities if activity != longest]
    calls = np.unique(device.call[gone])
    what_if = context.without(calls[~np.isin(calls, device.call[list(kept)])], union(*removed))
    return msgspec.structs.replace(what_if, factors={**what_if.factors, **kept})


def _but_longest(context: Context, rows: Sequence[int], left_ns: float) -> Intervals:
    table = context.trace.operators
    longest = max(rows, key=lambda row: int(table.end[row] - table.start[row]))
    begin, end = int(table.start[longest]), int(table.end[longest])
    return union(_host(context, rows, longest), make([begin + min(round(left_ns), end - begin)], [end]))


def _host(context: Context, rows: Sequence[int], keeper: int) -> Intervals:
    """The host time of all but one of these operators, with the ways from each to the next."""
    table, after = context.trace.operators, context.neighbours.after
    others = table.intervals([row for row in rows if row != keeper])
    ways = [(int(table.end[a]), int(table.start[b])) for a, b in pairwise(rows) if after[a] == b]
    return union(others, make(*zip(*ways, strict=True)) if ways else others[:0])


def durations(context: Context, rows: Integers) -> dict[int, int]:
    """Nanoseconds of the device for each operator; without a device those of the operator itself."""
    if not context.trace.has_device:
        return dict(zip(rows.tolist(), context.trace.operators.duration[rows].tolist(), strict=True))
    length = context.trace.device.duration
    return {row: int(length[launched].sum()) for row, launched in context.activities_by(rows).items()}


def work_of_each(context: Context, groups: Sequence[Sequence[int]]) -> list[Intervals]:
    """For each group of operators when the device ran what they launched; without a device, when they ran."""
    if not context.trace.has_device:
        return [context.trace.operators.intervals(rows) for rows in groups]
    launched = context.activities_by(flat(groups))
    return [context.trace.device.intervals(flat(launched[row] for row in rows)) for rows in groups]
