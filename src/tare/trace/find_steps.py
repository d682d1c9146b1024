"""The steps of a trace that marks none: the period in which its launches repeat.

A loop launches the same kernels again and again, up to the end of the recording. The layers of one forward pass
repeat too, but what follows them does not, so a repetition must last until the end, and of several the one that
covers the most counts. What comes before it is warm-up, and so are first repetitions that are far longer.
"""

import numpy as np

from tare.trace.intervals import Integers
from tare.trace.spans import pick
from tare.trace.tables import DeviceSpans, OperatorSpans, RuntimeCalls, StepSpans

# So many repetitions are a loop, and they are this share of all launches.
FEWEST_STEPS, LEAST_COVERED = 3, 0.3
FEWEST_LAUNCHES = 2
# Periods are tried that the rarest repeating launches suggest: what happens once a step.
MOST_CANDIDATES = 24
# A first repetition is warm-up if it takes this many times the median.
WARM_UP_FACTOR = 1.5


def find_steps(calls: RuntimeCalls, device: DeviceSpans, operators: OperatorSpans) -> StepSpans | None:
    """None where the launches do not repeat."""
    launches = np.flatnonzero(calls.launches)
    launched = np.flatnonzero(device.call >= 0)
    kernel = np.full(len(calls), -1, dtype=np.int64)
    # Of a graph's kernels the first names the graph.
    kernel[device.call[launched[::-1]]] = device.name[launched[::-1]]
    top = pick(operators.top, calls.operator[launches])
    pairs = np.stack([kernel[launches], pick(operators.name, top), calls.kind[launches]])
    _, codes = np.unique(pairs, axis=1, return_inverse=True)
    found = repetition(codes.reshape(-1).astype(np.int64), FEWEST_LAUNCHES)
    if found is None:
        return None
    begin, period = found
    start, end = calls.start[launches], calls.end[launches]
    first = begin + _phase(start[begin:] - np.append(start[:1], end[:-1])[begin:], period)
    bounds = np.arange(first, len(launches) + 1, period)
    if len(bounds) - 1 < FEWEST_STEPS:
        return None
    # A step begins with the operator that launches first in it.
    begun = np.where(top >= 0, pick(operators.start, top), start)
    last = max(int(calls.end.max()), int(operators.end.max(initial=0)))
    return as_steps(np.append(begun, last)[bounds], int(calls.thread[launches[first]]))


def as_steps(moments: Integers, thread: int) -> StepSpans | None:
    """Steps from each moment to the next, numbered from 0 and without a name; None where one has no length."""
    length = np.diff(moments)
    if (length <= 0).any():
        return None
    steady = np.flatnonzero(length <= WARM_UP_FACTOR * np.median(length))
    number = np.arange(len(length))
    counted = (number >= steady[0]).astype(np.int64)
    return StepSpans(
        moments[:-1], moments[1:], np.full(len(length), -1), number, np.full(len(length), thread), counted
    )


def repetition(codes: Integers, shortest: int) -> tuple[int, int] | None:
    """Where the repetition begins that lasts until the end, and its period: at least so long."""
    count = len(codes)
    best: tuple[int, int] | None = None
    for period in sorted(_candidates(codes, shortest)):
        differs = np.flatnonzero(codes[period:] != codes[:-period])
        begin = int(differs[-1]) + 1 if len(differs) else 0
        covered = count - begin
        enough = covered >= FEWEST_STEPS * period and covered >= LEAST_COVERED * count
        # A multiple of a period repeats too, and begins no earlier.
        if enough and (best is None or begin < best[0]):
            best = begin, period
    return best


def _candidates(codes: Integers, shortest: int) -> set[int]:
    times = np.bincount(codes) if len(codes) else np.empty(0, dtype=np.int64)
    repeating = np.flatnonzero(times >= FEWEST_STEPS)
    candidates: set[int] = set()
    for code in repeating[np.argsort(times[repeating], kind="stable")][:MOST_CANDIDATES].tolist():
        apart = np.diff(np.flatnonzero(codes == code))
        # The recording may begin with other launches, and ends with whole steps.
        candidates |= {int(np.median(apart)), int(apart[-1]), int(apart[-FEWEST_STEPS:].sum())}
    return {period for period in candidates if shortest <= period <= len(codes) // FEWEST_STEPS}


def _phase(pauses: Integers, period: int) -> int:
    """The launch of each period before which the host takes the longest pause: the loop, and its own work."""
    whole = len(pauses) // period * period
    return int(np.median(pauses[:whole].reshape(-1, period), axis=0).argmax())
