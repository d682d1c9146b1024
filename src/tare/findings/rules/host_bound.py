"""The host computes for a long time without launching anything, and the device runs dry (the TorchBench paper:
hf_BigBird)."""

import numpy as np

from tare.findings import Context, Location, Match, WhatIf, as_spans, rule
from tare.trace.intervals import Intervals, complement, covered_length, difference, make, union
from tare.trace.tables import Integers, Mask

SHORTEST_NS = 100_000
# A stretch is this many times as long as the usual way from one call to the next, and this share of the profiled
# step.
TIMES_USUAL = 8
LEAST_SHARE = 0.04
# Host time for which there are other rules.
LOADING_OR_COMPILING = r"^enumerate\(DataLoader\)#|dynamo_timed|^TorchDynamo Cache Lookup"
OTHER_RULES = rf"{LOADING_OR_COMPILING}|^Optimizer\.(step|zero_grad)#"


@rule(
    "host-bound",
    sees="The device runs dry while Python or operators on the CPU take 4 % of the step (100 µs) or more.",
    remedy="Move that work to the device, hoist it out of the step, or do it while the device is busy.",
)
def look(context: Context) -> Match | None:
    stretches = idle_stretches(context)
    if len(stretches) == 0:
        return None
    spans = as_spans(stretches)
    count = context.per_step(len(spans))
    seconds = float((stretches[:, 1] - stretches[:, 0]).sum()) / context.steps / 1e9
    return Match(
        summary=f"stretches in which the host launches nothing: {count:.3g} a step",
        evidence={"stretches_per_step": count, "host_s_per_step": seconds},
        locations=[_location(context, start, end) for start, end in spans],
        saving_s=context.saving(WhatIf(removed=spans)),
        spans=spans,
    )


def idle_stretches(context: Context) -> Intervals:
    """Host time between two calls of one step that is long, mostly without device activity, and no other
    rule's."""
    calls, device, steps = context.trace.calls, context.trace.device, context.trace.steps
    inside = np.flatnonzero(context.inside(calls))
    if len(inside) < 2:
        return make([], [])
    window = context.replay.start, context.replay.end
    free = complement(make(calls.start[inside], calls.end[inside]), *window)
    usual = float(np.median(_length(free))) if len(free) else 0.0
    free = _without_step_edges(free, steps.start, steps.end)
    free = free[~_handed_over(context, free)]
    shortest = max(SHORTEST_NS, TIMES_USUAL * usual, LEAST_SHARE * (window[1] - window[0]) / context.steps)
    long = free[_length(free) >= shortest]
    long = long[covered_length(device.intervals(), long[:, 0], long[:, 1]) < _length(long) / 2]
    others = union(context.marked(OTHER_RULES), _dispatching(context))
    # Where another rule has the greater part of a stretch, it has the rest as well.
    long = long[covered_length(others, long[:, 0], long[:, 1]) < _length(long) / 2]
    remaining = difference(long, others)
    return _in_every_step(context, remaining[_length(remaining) >= shortest])


def _length(intervals: Intervals) -> Integers:
    return intervals[:, 1] - intervals[:, 0]


def _without_step_edges(free: Intervals, starts: Integers, ends: Integers) -> Intervals:
    """Stretches that reach the edge of a step contain the loop around it and the profiler itself."""
    edges = np.sort(np.concatenate([starts, ends]))
    crossing = np.searchsorted(edges, free[:, 1], side="right") > np.searchsorted(edges, free[:, 0])
    kept: Intervals = free[~crossing]
    return kept


def _dispatching(context: Context) -> Intervals:
    """Outermost operators that launch something: their host time is the framework's, and launch-bound's."""
    table, calls = context.trace.operators, context.trace.calls
    launching = calls.operator[context.trace.device.call[context.trace.device.call >= 0]]
    rows = np.unique(table.top[launching[launching >= 0]])
    steps = context.matching(table, r"^(?:ProfilerStep|tare::step)#")
    return table.intervals(rows[~np.isin(rows, steps)])


def _handed_over(context: Context, free: Intervals) -> Mask:
    """Stretches after which another thread goes on (autograd's), or only the profiler's own wait follows."""
    calls = context.trace.calls
    rows = np.flatnonzero(context.inside(calls))
    before = rows[np.maximum(np.searchsorted(calls.start[rows], free[:, 0]) - 1, 0)]
    after = rows[np.minimum(np.searchsorted(calls.start[rows], free[:, 1]), len(rows) - 1)]
    profiler = np.isin(after, list(context.profiler_syncs))
    return np.asarray(profiler | (calls.thread[before] != calls.thread[after]), dtype=bool)


def _in_every_step(context: Context, stretches: Intervals) -> Intervals:
    """The stretches that recur at one location in every step: what happened once is an accident."""
    locations: dict[str, list[int]] = {}
    for index, (start, end) in enumerate(stretches.tolist()):
        locations.setdefault(_location(context, start, end).where, []).append(index)
    kept = [index for indices in locations.values() if len(indices) >= context.steps for index in indices]
    return make(stretches[kept, 0], stretches[kept, 1])


def _location(context: Context, start: int, end: int) -> Location:
    """The user's line in the middle of the stretch, or the operator that took most of it."""
    calls, operators = context.trace.calls, context.trace.operators
    before = int(np.searchsorted(calls.start, start) - 1)
    thread = int(calls.thread[max(before, 0)])
    where = context.locator.at(thread, (start + end) // 2)
    within = np.flatnonzero((operators.start >= start) & (operators.end <= end) & (operators.depth == 0))
    if len(within):
        longest = int(within[np.argmax(operators.duration[within])])
        if operators.duration[longest] > (end - start) / 2:
            name = f"{context.trace.name(operators, longest)} on the host"
            where = f"{where}: {name}" if where else name
    if not where and before >= 0:
        where = context.locator.after_call(before)
    return Location(where=where, count=1 / context.steps, seconds=(end - start) / context.steps / 1e9)
