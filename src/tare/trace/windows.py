"""The window of each step: the step, extended to the end of the device work that was launched in it.

Where steps run back to back the host is ahead of the device, and a step's device work goes on after the next step
has begun. The next window then begins where this one ends: windows never overlap and no time counts twice.
"""

from dataclasses import replace

import numpy as np

from tare.errors import BadInput
from tare.trace.columns import distinct
from tare.trace.intervals import Integers
from tare.trace.naming import step_number
from tare.trace.tables import GRAPH, LAUNCH, Mask, Trace

# Of fewer steps than this none is left out; of more, those that took so many times the median.
FEWEST_STEPS = 4
LONGEST = 1.5


def windows(trace: Trace, device: int | None = None) -> Integers:
    """One row a counted step: its number, the window's start and end in nanoseconds, and the row in Trace.steps.

    A window that another swallowed whole is empty."""
    return _every_window(trace, device)[np.flatnonzero(trace.steps.counted)]


def _every_window(trace: Trace, device: int | None) -> Integers:
    steps, work = trace.steps, trace.device
    known = work.call >= 0
    if device is not None:
        known &= work.device == device
    launched = trace.calls.start[work.call[known]]
    step = np.searchsorted(steps.start, launched, side="right") - 1
    inside = (step >= 0) & (launched < steps.end[np.maximum(step, 0)])
    finish = steps.end.copy()
    np.maximum.at(finish, step[inside], work.end[known][inside])
    finish = np.maximum.accumulate(finish)
    begin = np.maximum(steps.start, np.concatenate([steps.start[:1], finish[:-1]]))
    rows: Integers = np.stack([steps.number, begin, np.maximum(begin, finish), np.arange(len(steps))], axis=1)
    return rows


def counted_step(trace: Trace, at: Integers) -> Integers:
    """For each moment on the host which of the steps that count it lies in, from 0, or -1."""
    steps = trace.steps
    if len(steps) == 0:
        return np.full(len(at), -1, dtype=np.int64)
    step = np.searchsorted(steps.start, at, side="right") - 1
    row = np.maximum(step, 0)
    inside = (step >= 0) & (at < steps.end[row]) & (steps.counted[row] == 1)
    return np.where(inside, np.cumsum(steps.counted)[row] - 1, -1)


def in_counted_steps(trace: Trace, at: Integers) -> Mask:
    """Which of these moments on the host lie in a step that counts."""
    return np.greater_equal(counted_step(trace, at), 0)


def other_stepping(trace: Trace) -> int:
    """On how many threads there are steps beside the one whose steps count."""
    codes = [code for code, name in enumerate(trace.names) if step_number(name) is not None]
    marked = np.isin(trace.annotations.name, codes) & (trace.annotations.device == 0)
    threads = distinct(trace.annotations.thread[marked])
    return int((threads != trace.steps.thread[0]).sum()) if len(trace.steps) else 0


def usual(trace: Trace) -> Trace:
    """What tare recorded itself without its untypical steps; anybody else's steps may do what they like."""
    return typical(trace) if "tare_profiled" in trace.metadata else trace


def typical(trace: Trace) -> Trace:
    """The trace without the steps that took far longer than most, for steps that are known to do all the same.

    What makes one of them long (the profiler's first buffer, another process) is no property of the workload. All
    recorded steps are looked at, also those left out before: of a typical trace the typical steps are the same."""
    rows = _every_window(trace, main_device(trace))
    if len(rows) < FEWEST_STEPS:
        return trace
    length = rows[:, 2] - rows[:, 1]
    counted = (length <= LONGEST * np.median(length)).astype(np.int64)
    return replace(trace, steps=replace(trace.steps, counted=counted))


def main_device(trace: Trace) -> int | None:
    """The device that worked longest; a trace of several is explained for that one."""
    if not trace.has_device:
        return None
    devices = distinct(trace.device.device)
    busy = [int(trace.device.duration[trace.device.device == one].sum()) for one in devices]
    return int(devices[int(np.argmax(busy))])


def launching(trace: Trace) -> Mask:
    """The calls that launch kernels."""
    return np.equal(trace.calls.kind, LAUNCH) | np.equal(trace.calls.kind, GRAPH)


def check_kernels(trace: Trace) -> None:
    """Launches without any kernel mean that the profiler lost them: such a trace says nothing about the device."""
    launches = int(launching(trace).sum())
    if launches and not trace.device.kernels.any():
        raise BadInput(
            f"the trace {trace.source} has {launches} kernel launches and no kernel: the profiler lost the "
            "device's side; record it again, with at least one warm-up step in the profiler's schedule"
        )
