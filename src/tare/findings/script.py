"""A trace's calls and works as a timeline that can be played again."""

from dataclasses import dataclass

import numpy as np

from tare.findings.replay import Call, Timeline, Work
from tare.trace.intervals import make
from tare.trace.tables import COPY_CALL, PAGEABLE, SYNC, Mask, Trace

# Replaying is done in Python, a microsecond a call: of a long trace, so many calls are enough for a price.
MOST_CALLS = 20_000
# Calls that hold the host until the device is done, beside those that say so.
_HOLDING = ("cudaFree", "cudaMemcpy", "hipFree", "hipMemcpy", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2")
# What recording a Python frame costs the host at its call and again at its return (ns), on Python only, not in the
# operators that it calls. Beside an H200: 270 in a hot loop and 520 in formatting tracebacks (the profiled step
# less the unprofiled one, habit against twin), 800 in ResNet-50 (with stacks against without). The least is taken.
FRAME_NS = 270
_WHOLE_DEVICE = ("cudaDeviceSynchronize", "hipDeviceSynchronize", "cuCtxSynchronize")


@dataclass(frozen=True)
class Script:
    """`call_at` and `work_at` are the positions in the timeline of the trace's rows of calls and device work."""

    timeline: Timeline
    steps: int
    call_at: dict[int, int]
    work_at: dict[int, int]
    # Rows of the calls with which a profiler waits for the device at the end of each step: they do not wait here,
    # since what is measured without a profiler is not stopped there.
    closing: frozenset[int]


def make_script(trace: Trace, keep_closing: bool = False) -> Script:
    """The steps of a trace, as many as make MOST_CALLS, played as one window; `keep_closing` as it was
    profiled."""
    first, last, steps = _window(trace)
    calls, device = trace.calls, trace.device
    rows = np.flatnonzero((calls.start >= first) & (calls.start < last))
    call_at = {row: index for index, row in enumerate(rows.tolist())}
    closing: frozenset[int] = frozenset() if keep_closing else _closing(trace, first, last)
    waits = waiting(trace)
    scripted = [
        Call(int(calls.start[row]), int(calls.end[row]), bool(waits[row]) and row not in closing)
        for row in rows.tolist()
    ]
    # A closing wait takes no host time either.
    outside = [(int(calls.start[row]), int(calls.end[row])) for row in sorted(closing)]
    works: list[Work] = []
    work_at: dict[int, int] = {}
    known = np.isin(device.call, rows)
    # What was launched before the window runs in it as it did.
    running = ~known & (device.start < last) & (device.end > first)
    for row in np.flatnonzero(known | running).tolist():
        work_at[row] = len(works)
        at = call_at.get(int(device.call[row]), -1)
        # Streams of two devices may bear the same number.
        stream = int(device.stream[row]) + (int(device.device[row]) << 32)
        works.append(Work(int(device.start[row]), int(device.end[row]), stream, at))
    outside += _between(trace, first, last) + _recording(trace, first, last)
    united = make([start for start, _ in outside], [end for _, end in outside])
    timeline = Timeline(first, last, scripted, works, [(int(start), int(end)) for start, end in united])
    return Script(timeline, steps, call_at, work_at, closing)


def _window(trace: Trace) -> tuple[int, int, int]:
    """From where to where, and how many steps: those that follow each other without one that does not count."""
    steps = trace.steps
    if len(steps) == 0:
        return 0, 0, 1
    begin, count = _longest_run(steps.counted.tolist())
    first = int(steps.start[begin])
    for index in range(begin + 1, begin + count):
        inside = (trace.calls.start >= first) & (trace.calls.start < steps.end[index])
        if int(inside.sum()) > MOST_CALLS:
            count = index - begin
            break
    return first, int(steps.end[begin + count - 1]), count


def _longest_run(counted: list[int]) -> tuple[int, int]:
    """Where the longest run of counted steps begins, and its length; all of them where none counts."""
    best, begin = (0, 0), 0
    for index, value in enumerate([*counted, 0]):
        if not value:
            if index - begin > best[1]:
                best = (begin, index - begin)
            begin = index + 1
    return best if best[1] else (0, len(counted))


def _between(trace: Trace, first: int, last: int) -> list[tuple[int, int]]:
    """Host time between two steps, which belongs to neither."""
    steps = trace.steps
    ends, starts = steps.end[:-1], steps.start[1:]
    return [(int(e), int(s)) for e, s in zip(ends, starts, strict=True) if first <= e < s <= last]


def _recording(trace: Trace, first: int, last: int) -> list[tuple[int, int]]:
    """Host time that the profiler took to record Python frames: after each call and return, until something else
    begins or ends."""
    frames, threads = trace.frames, np.unique(trace.steps.thread)
    if len(frames) == 0:
        return []
    hooks = np.concatenate([times[np.isin(frames.thread, threads)] for times in (frames.start, frames.end)])
    hooks = np.unique(hooks[(hooks >= first) & (hooks < last)])
    others = [hooks, np.array([last])]
    for table in (trace.operators, trace.calls):
        mine = np.isin(table.thread, threads)
        others += [table.start[mine], table.end[mine]]
    edges = np.unique(np.concatenate(others))
    until = np.minimum(hooks + FRAME_NS, edges[np.searchsorted(edges, hooks, side="right")])
    return [(int(start), int(end)) for start, end in zip(hooks, until, strict=True) if start < end]


def _closing(trace: Trace, first: int, last: int) -> frozenset[int]:
    calls = trace.calls
    whole = trace.named(calls, *_WHOLE_DEVICE)
    found = set()
    for start, end in zip(trace.steps.start.tolist(), trace.steps.end.tolist(), strict=True):
        rows = np.flatnonzero((calls.start >= start) & (calls.start < end) & (first <= start) & (end <= last))
        if len(rows) and whole[rows[-1]]:
            found.add(int(rows[-1]))
    return frozenset(found)


def waiting(trace: Trace) -> Mask:
    """Calls that may hold the host: waits, copies of pageable memory, and what waits implicitly."""
    calls, device = trace.calls, trace.device
    pageable = device.call[(device.memory == PAGEABLE) & (device.call >= 0)]
    holding = np.zeros(len(calls), dtype=bool)
    holding[pageable] = True
    holding &= calls.kind == COPY_CALL
    holding |= (calls.kind == SYNC) | trace.named(calls, *_HOLDING)
    return holding
