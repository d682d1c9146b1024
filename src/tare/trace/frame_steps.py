"""The steps of a trace that marks none and launches nothing that repeats: the iterations of its outermost loop.

With stacks the profiler records what each Python function calls. A loop calls the same functions again and again,
up to the end of the recording. The search begins at the outermost frame and goes into the longest call of each,
but not into a module or into torch: what repeats there are layers and parameters.
"""

import re
from collections.abc import Sequence

import numpy as np

from tare.trace.find_steps import FEWEST_STEPS, LEAST_COVERED, as_steps, repetition
from tare.trace.tables import FrameSpans, Integers, OperatorSpans, StepSpans

# A call that takes less than this share of all calls of its frame is not looked into.
LEAST_SHARE = 0.5
# After the last iteration there is hardly anything, of one iteration: the printing of a result.
MOST_AFTER = 0.1
# Calls that a loop makes now and then, such as logging, are left out, those that are rarest first: so many times,
# and no more than this share of the time.
MOST_LEFT_OUT, MOST_TIME_LEFT_OUT = 8, 0.2
_TORCH = re.compile(r"(?:^|/)torch/|^<built-in")
# Builtins are named with the object that they are called on.
_OBJECT = re.compile(r" object at 0x[0-9a-f]+")


def find_frame_steps(frames: FrameSpans, operators: OperatorSpans, names: Sequence[str]) -> StepSpans | None:
    """None where no loop is found."""
    thread = _busiest_thread(frames, operators)
    if thread is None:
        return None
    work = operators.take((operators.thread == thread) & (operators.parent < 0))
    numbers: dict[str, int] = {}
    function = np.array([numbers.setdefault(_OBJECT.sub("", name), len(numbers)) for name in names])
    rows, frame = np.flatnonzero(frames.thread == thread), -1
    while True:
        called = rows[frames.parent[rows] == frame]
        moments = _iterations(frames, called, function[frames.name[called]], work)
        if moments is not None:
            return as_steps(moments, thread)
        frame = int(called[frames.duration[called].argmax()]) if len(called) else -1
        if frame < 0 or frames.duration[frame] < LEAST_SHARE * frames.duration[called].sum():
            return None
        if frames.module[frame] >= 0 or _TORCH.search(names[int(frames.name[frame])]):
            return None


def _busiest_thread(frames: FrameSpans, operators: OperatorSpans) -> int | None:
    """The thread with frames whose operators take the most time."""
    times = {
        thread: int(operators.duration[(operators.thread == thread) & (operators.parent < 0)].sum())
        for thread in frames.rows_by_thread
    }
    busiest = max(times, key=lambda thread: times[thread], default=None)
    return busiest if busiest is not None and times[busiest] else None


def _iterations(frames: FrameSpans, called: Integers, function: Integers, work: OperatorSpans) -> Integers | None:
    """The moments at which the iterations of a frame's loop begin, and the end of the last one. `called` are its
    calls, `function` says of which, and `work` are the operators of its thread."""
    _, codes, counts = np.unique(function, return_inverse=True, return_counts=True)
    codes = codes.reshape(-1)
    most: Integers | None = None
    for least in np.unique(counts)[:MOST_LEFT_OUT].tolist():
        kept = counts[codes] >= least
        rows, left_out = called[kept], called[~kept]
        found = repetition(codes[kept], shortest=1)
        if found is None:
            continue
        begin, period = found
        first = rows[begin : begin + (len(rows) - begin) // period * period : period]
        moments = np.append(frames.start[first], frames.end[rows[begin + len(first) * period - 1]])
        within = left_out[(frames.start[left_out] >= moments[0]) & (frames.start[left_out] < moments[-1])]
        is_little = frames.duration[within].sum() <= MOST_TIME_LEFT_OUT * (moments[-1] - moments[0])
        if is_little and _holds(moments, work) and (most is None or len(moments) > len(most)):
            most = moments
    return most


def _holds(moments: Integers, work: OperatorSpans) -> bool:
    """Whether the iterations are the program's own: each of them computes, and there is little beside them."""
    at = np.searchsorted(moments, work.start, side="right")
    times = np.bincount(at, weights=work.duration, minlength=len(moments) + 1)
    iterations, after = times[1:-1], times[-1]
    enough = iterations.sum() >= LEAST_COVERED * times.sum() and after <= MOST_AFTER * np.median(iterations)
    return len(iterations) >= FEWEST_STEPS and bool(iterations.min() > 0) and bool(enough)
