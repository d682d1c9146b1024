"""The window of each step: the step, extended to the end of the device work that was launched in it.

Where steps run back to back the host is ahead of the device, and a step's device work continues after the next
step has begun. The next window then begins where this one ends, so windows never overlap and no time counts twice.
"""

from dataclasses import replace

import numpy as np

from tare.trace.intervals import Integers, Mask, contains, distinct, make
from tare.trace.names import step_number
from tare.trace.spans import pick, rows_by_value
from tare.trace.tables import Trace, once

# An outlier takes more than this many times the median step. Of fewer steps than this, none is an outlier.
OUTLIER_FACTOR = 1.5
FEWEST_STEPS = 4


def windows(trace: Trace, device: int | None = None) -> Integers:
    """One row per counted step: its number, the window's start and end (ns), and its row in Trace.steps.

    A window that lies inside an earlier one is empty.
    """
    return _all_windows(trace, device)[np.flatnonzero(trace.steps.counted)]


def _all_windows(trace: Trace, device: int | None) -> Integers:
    steps, work = trace.steps, trace.device
    launched = work.call >= 0
    if device is not None:
        launched &= work.device == device
    step = step_at(trace, trace.calls.start[work.call[launched]])
    finish = steps.end.copy()
    np.maximum.at(finish, step[step >= 0], work.end[launched][step >= 0])
    finish = np.maximum.accumulate(finish)
    begin = np.maximum(steps.start, np.concatenate([[_first_begin(trace, device)], finish[:-1]]))
    rows: Integers = np.stack([steps.number, begin, np.maximum(begin, finish), np.arange(len(steps))], axis=1)
    return rows


def _first_begin(trace: Trace, device: int | None) -> int:
    """The end of the device work that was launched before the first step, but not after the first work of that."""
    steps, work = trace.steps, trace.device
    first = int(steps.start[0]) if len(steps) else 0
    if not len(steps) or not len(work) or not len(trace.calls):
        return first
    ours = np.full(len(work), True) if device is None else work.device == device
    known = work.call >= 0
    launched = pick(trace.calls.start, work.call)
    in_steps = ours & known & (launched >= first)
    if not in_steps.any():
        return first
    # Calls from before the trace were not recorded: their work comes before any other on its stream.
    earlier = ours & known & (launched < first)
    for rows in rows_by_value(work.stream[ours]).values():
        of_stream = np.flatnonzero(ours)[rows]
        own = work.start[of_stream[in_steps[of_stream]]]
        begun = own.min(initial=np.iinfo(np.int64).max) if len(own) else int(work.start[in_steps].min())
        earlier[of_stream[~known[of_stream] & (work.start[of_stream] < begun)]] = True
    reach = int(work.end[earlier].max(initial=first))
    return min(reach, max(int(work.start[in_steps].min()), first))


def step_at(trace: Trace, at: Integers) -> Integers:
    """For each moment on the host, the row of the step that contains it, or -1."""
    step = np.searchsorted(trace.steps.start, at, side="right") - 1
    return np.where(at < pick(trace.steps.end, step), step, -1)


def counted_step(trace: Trace, at: Integers) -> Integers:
    """For each moment on the host, the index of the counted step that contains it, or -1."""
    counted = trace.steps.counted
    return pick(np.where(counted == 1, np.cumsum(counted) - 1, -1), step_at(trace, at))


def in_counted_steps(trace: Trace, at: Integers) -> Mask:
    return np.greater_equal(counted_step(trace, at), 0)


def counted_work(trace: Trace) -> Integers:
    """The rows of the main device's work that begins in a counted window."""
    device = main_device(trace)
    window = windows(trace, device)
    inside = contains(make(window[:, 1], window[:, 2]), trace.device.start)
    return np.flatnonzero(inside & (trace.device.device == device))


def other_step_threads(trace: Trace) -> int:
    """The number of threads with annotated steps beside the one whose steps count."""
    marked = trace.matching(trace.annotations, lambda name: step_number(name) is not None)
    threads = distinct(trace.annotations.thread[marked & (trace.annotations.device == 0)])
    return int((threads != trace.steps.thread[0]).sum()) if len(trace.steps) else 0


def select_steps(trace: Trace) -> Trace:
    """A trace of tare without its outlier steps; any other trace unchanged, since its steps may differ."""
    return drop_outlier_steps(trace) if "tare_profiled" in trace.metadata else trace


def drop_outlier_steps(trace: Trace) -> Trace:
    """The trace with outlier steps not counted, for steps that are known to do the same.

    What makes one of them long (the profiler's first buffer, another process) is no property of the workload. The
    median is over all recorded steps, so that applying this twice changes nothing.
    """
    rows = _all_windows(trace, main_device(trace))
    if len(rows) < FEWEST_STEPS:
        return trace
    length = rows[:, 2] - rows[:, 1]
    counted = (length <= OUTLIER_FACTOR * np.median(length)).astype(np.int64)
    if np.array_equal(counted, trace.steps.counted):
        return trace
    return replace(trace, steps=replace(trace.steps, counted=counted))


@once
def main_device(trace: Trace) -> int | None:
    """The device with the most work, for which a trace of several devices is explained."""
    if not trace.has_device:
        return None
    devices = distinct(trace.device.device)
    busy = [int(trace.device.duration[trace.device.device == device].sum()) for device in devices]
    return int(devices[int(np.argmax(busy))])
