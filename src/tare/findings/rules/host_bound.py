"""The host computes for a long time without launching anything, and the device runs dry (the TorchBench paper:
hf_BigBird)."""

import numpy as np

from tare.findings import Context, Match, WhatIf, flat, grouped, rule
from tare.trace.intervals import EMPTY, Intervals, complement, covered_length, difference, total, union
from tare.trace.serving import request_pauses
from tare.trace.spans import pick
from tare.trace.tables import Integers, Mask

SHORTEST_NS = 100_000
# A stretch is this many times as long as the usual way from one call to the next, and this share of the profiled
# step.
TIMES_USUAL = 8
LEAST_SHARE = 0.04
# Host time for which there are other rules.
LOADING_OR_COMPILING = r"^enumerate\(DataLoader\)#|dynamo_timed|^TorchDynamo Cache Lookup"
OTHER_RULES = rf"{LOADING_OR_COMPILING}|^Optimizer\.(step|zero_grad)#"


@rule("Move that work to the device, hoist it out of the step, or do it while the device is busy.")
def host_bound(context: Context) -> Match | None:
    """The device runs dry while Python or operators on the CPU take 4 % of the step (100 µs) or more."""
    stretches = idle_stretches(context)
    if len(stretches) == 0:
        return None
    count = context.per_step(len(stretches))
    return Match(
        summary=f"stretches in which the host launches nothing: {count:.3g} a step",
        evidence={"stretches_per_step": count, "host_s_per_step": total(stretches) / context.steps / 1e9},
        locations=[context.location(_where(context, *span), span) for span in stretches.tolist()],
        saving_s=context.saving(WhatIf(removed=stretches)),
        spans=stretches,
    )


def idle_stretches(context: Context) -> Intervals:
    """Host time between two calls of one step that is long, mostly without device activity, no other rule's, and
    that recurs at its location in every step: what happened once is an accident."""
    calls, replay = context.trace.calls, context.replay
    rows = np.flatnonzero(context.inside(calls))
    if len(rows) < 2:
        return EMPTY
    free = complement(calls.intervals(rows), replay.start, replay.end)
    usual = float(np.median(_length(free))) if len(free) else 0.0
    shortest = max(SHORTEST_NS, TIMES_USUAL * usual, LEAST_SHARE * (replay.end - replay.start) / context.steps)
    long = free[(_length(free) >= shortest) & ~_leaves_step(context, free) & ~_handed_over(context, free, rows)]
    # A server that waits for a request has nothing to launch.
    others = union(context.marked(OTHER_RULES), _dispatching(context), request_pauses(context.trace))
    for covering in (context.trace.device.intervals(), others):
        # Where another rule has the greater part of a stretch, it has the rest as well.
        long = long[covered_length(covering, long[:, 0], long[:, 1]) < _length(long) / 2]
    remaining = difference(long, others)
    remaining = remaining[_length(remaining) >= shortest]
    groups = grouped(range(len(remaining)), lambda index: _where(context, *remaining[index].tolist()))
    return remaining[flat(group for group in groups.values() if len(group) >= context.steps)]


def _length(intervals: Intervals) -> Integers:
    return intervals[:, 1] - intervals[:, 0]


def _leaves_step(context: Context, free: Intervals) -> Mask:
    """Stretches that reach the edge of a step contain the loop around it and the profiler itself."""
    edges = np.sort(np.concatenate([context.trace.steps.start, context.trace.steps.end]))
    return np.greater(np.searchsorted(edges, free[:, 1], side="right"), np.searchsorted(edges, free[:, 0]))


def _handed_over(context: Context, free: Intervals, rows: Integers) -> Mask:
    """Stretches after which another thread goes on (autograd's), or only the profiler's own wait follows."""
    calls = context.trace.calls
    before = rows[np.maximum(np.searchsorted(calls.start[rows], free[:, 0]) - 1, 0)]
    after = rows[np.minimum(np.searchsorted(calls.start[rows], free[:, 1]), len(rows) - 1)]
    other_thread: Mask = calls.thread[before] != calls.thread[after]
    return other_thread | np.isin(after, context.replay.profiler_syncs)


def _dispatching(context: Context) -> Intervals:
    """Outermost operators that launch something: their host time is the framework's, and launch-bound's."""
    table, calls, device = context.trace.operators, context.trace.calls, context.trace.device
    launching = calls.operator[device.call[device.call >= 0]]
    steps = context.matching(table, r"^(?:ProfilerStep|tare::step)#")
    return table.intervals(np.setdiff1d(table.top[launching[launching >= 0]], steps))


def _where(context: Context, start: int, end: int) -> str:
    """The user's line in the middle of the stretch, and the operator that took most of it."""
    calls, operators, locator = context.trace.calls, context.trace.operators, context.locator
    before = int(np.searchsorted(calls.start, start) - 1)
    line = _busiest_line(context, int(calls.thread[max(before, 0)]), start, end)
    within = (operators.start >= start) & (operators.end <= end) & (operators.depth == 0)
    longest = np.flatnonzero(within & (operators.duration > (end - start) / 2))
    if len(longest):
        name = f"{context.trace.name(operators, longest[0])} on the host"
        return f"{line}: {name}" if line else name
    return line or (locator.after_call(before) if before >= 0 else "")


def _busiest_line(context: Context, thread: int, start: int, end: int) -> str:
    """The user's line in which the stretch spends the most time, and what it calls there, as the table of idle
    time names it: the line in its middle may only be a wrapper. Empty without stacks."""
    trace, frames = context.trace, context.trace.frames
    if not trace.has_stacks:
        return ""
    _, begin, finish, owner = frames.timeline(thread).cut(np.array([start]), np.array([end]))
    known = owner >= 0
    if not known.any():
        return ""
    lines, where = np.unique(pick(frames.line, owner[known]), return_inverse=True)
    times = np.bincount(where.reshape(-1), weights=(finish - begin)[known])
    longest = known.nonzero()[0][where.reshape(-1) == times.argmax()]
    frame = int(owner[longest[(finish - begin)[longest].argmax()]])
    line = int(lines[times.argmax()])
    text = context.locator.of_frame(frame)
    return text if line in (-1, frame) else f"{text}, {trace.name(frames, frame)}"
