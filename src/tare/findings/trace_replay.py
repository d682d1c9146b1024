"""The counted steps of a trace as a replay: what of the recording belongs to a step without a profiler."""

from itertools import groupby, starmap
from typing import Any

import numpy as np

from tare.findings.replay import Activity, Replay, RuntimeCall
from tare.trace.intervals import EMPTY, Intervals, clip, distinct, make, union
from tare.trace.spans import pick
from tare.trace.tables import COPY_CALL, PAGEABLE, SYNC, WORKING, Integers, Mask, Trace
from tare.trace.windows import step_at

# A replay takes about a microsecond a call: this many calls of a long trace are enough for a saving.
MOST_CALLS = 6_000
# What recording one Python frame costs the host at its call and again at its return (ns), in Python code only,
# not in the operators that it calls. Beside an H200: 270 in a hot loop and 520 in formatting tracebacks
# (profiled step minus unprofiled step), 800 in ResNet-50 (with stacks minus without). The smallest is taken.
FRAME_NS = 270
# Calls that hold the host until the device is done, besides those of the kind SYNC.
_BLOCKING = ("cudaFree", "cudaMemcpy", "hipFree", "hipMemcpy", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2")
_DEVICE_SYNC = ("cudaDeviceSynchronize", "hipDeviceSynchronize", "cuCtxSynchronize")


class TraceReplay(Replay):
    """The longest run of consecutive counted steps, up to MOST_CALLS calls, as one window of `steps` steps.

    `call_rows` are the rows of `trace.calls` in the window, and `activity_index` maps rows of `trace.device` to
    activities. `profiler_syncs` are rows of the calls with which a profiler waits for the device at the end of
    each step. They do not wait in the replay: without a profiler nothing waits there.
    """

    def __init__(self, trace: Trace, keep_profiler_syncs: bool = False) -> None:
        calls, device, steps = trace.calls, trace.device, trace.steps
        first, last, self.steps = _window(trace)
        begin, end = np.searchsorted(calls.start, [first, last]).tolist()
        self.call_rows = range(begin, end)
        self.profiler_syncs = [] if keep_profiler_syncs else _profiler_syncs(trace, first, last)
        waits = _blocking_calls(trace)
        waits[self.profiler_syncs] = False
        call_columns = (column[begin:end].tolist() for column in (calls.start, calls.end, waits))
        launched = (device.call >= begin) & (device.call < end)
        # What was launched before the window runs in it as recorded.
        rows = np.flatnonzero(launched | ((device.start < last) & (device.end > first)))
        self.activity_index = {row: index for index, row in enumerate(rows.tolist())}
        # Streams of two devices may have the same number.
        stream, call = device.stream + (device.device << 32), np.where(launched, device.call - begin, -1)
        activity_columns = (column[rows].tolist() for column in (device.start, device.end, stream, call))
        between_steps = clip(make(steps.end[:-1], steps.start[1:]), first, last)
        super().__init__(
            first,
            last,
            list(starmap(RuntimeCall, zip(*call_columns, strict=True))),
            list(starmap(Activity, zip(*activity_columns, strict=True))),
            union(calls.intervals(self.profiler_syncs), between_steps, _frame_recording(trace, first, last)),
        )


def _window(trace: Trace) -> tuple[int, int, int]:
    """Start, end and number of steps; of all steps where none is counted."""
    steps = trace.steps
    if len(steps) == 0:
        return 0, 0, 1
    counted = steps.counted.tolist()
    runs = [list(run) for is_counted, run in groupby(range(len(steps)), counted.__getitem__) if is_counted]
    longest = max(runs, key=len, default=list(range(len(steps))))
    first, ends = int(steps.start[longest[0]]), steps.end[longest]
    calls_until_end = np.searchsorted(trace.calls.start, ends) - np.searchsorted(trace.calls.start, first)
    count = max(int((calls_until_end <= MOST_CALLS).sum()), 1)
    return first, int(ends[count - 1]), count


def _profiler_syncs(trace: Trace, first: int, last: int) -> list[int]:
    """Waits for the whole device between steps, and at the end of one, after which nothing is launched or
    copied."""
    calls, steps = trace.calls, trace.steps
    device_syncs = trace.named(calls, *_DEVICE_SYNC)
    working = calls.start[np.isin(calls.kind, WORKING)]
    rows = np.flatnonzero(device_syncs & (calls.start >= first) & (calls.start < last))
    step = step_at(trace, calls.start[rows])
    following = np.append(working, np.iinfo(np.int64).max)[np.searchsorted(working, calls.start[rows])]
    at_the_end = (following >= pick(steps.end, step)) & (pick(steps.start, step) >= first)
    chosen: list[int] = rows[(step < 0) | at_the_end].tolist()
    return chosen


def _blocking_calls(trace: Trace) -> Mask:
    """Calls that may hold the host: synchronisations, copies of pageable memory, and those that wait
    implicitly."""
    calls, device = trace.calls, trace.device
    pageable = np.isin(np.arange(len(calls)), device.call[device.memory == PAGEABLE])
    blocking: Mask = (pageable & (calls.kind == COPY_CALL)) | (calls.kind == SYNC) | trace.named(calls, *_BLOCKING)
    return blocking


def _frame_recording(trace: Trace, first: int, last: int) -> Intervals:
    """Host time that the profiler took to record Python frames: after each call and return, until the next
    event."""
    threads = np.unique(trace.steps.thread)

    def edges(table: Any) -> Integers:
        rows = np.isin(table.thread, threads)
        moments = np.concatenate([table.start[rows], table.end[rows]])
        return moments[(moments >= first) & (moments < last)]

    if not trace.has_stacks:
        return EMPTY
    hooks = distinct(edges(trace.frames))
    events = distinct(np.concatenate([hooks, [last], edges(trace.operators), edges(trace.calls)]))
    next_event = events[np.searchsorted(events, hooks, side="right")]
    return make(hooks, np.minimum(hooks + FRAME_NS, next_event))
