"""Does a figure grow step by step, in every process? The arithmetic of a leak check."""

from collections.abc import Sequence

import numpy as np

from tare.stats.intervals import Interval
from tare.stats.slopes import slope_interval

# All pairs of points enter the slope: beyond this many points an even selection says as much.
MOST_POINTS = 300
FEWEST_POINTS = 3


def growth(steps: Sequence[float], values: Sequence[float]) -> float | None:
    """Growth per step within one process, by the median of all pairs' slopes.

    It shrugs off single jumps. What grew once and then stays is no leak, so the estimate is the smaller of the two
    halves' slopes: a leak goes on. Halves that disagree in their direction have none. None where there are too few
    points, or the steps do not advance.
    """
    x, y = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    if x.size > MOST_POINTS:
        chosen = np.linspace(0, x.size - 1, MOST_POINTS).astype(int)
        x, y = x[chosen], y[chosen]
    middle = x.size // 2
    # The point in the middle belongs to both: three points have two halves.
    halves = (slice(0, middle + 1), slice(middle, None))
    if x.size < FEWEST_POINTS or any(np.unique(x[half]).size < 2 for half in halves):
        return None
    first, second = (slope_interval(y[half], x[half]).mid for half in halves)
    return 0.0 if first * second <= 0 else min(first, second, key=abs)


def growth_over_rounds(slopes: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Growth per step over fresh processes, by Student: one process may wander, a leak is in all of them."""
    from scipy.special import stdtrit

    if not slopes:
        return None
    values = np.asarray(slopes, dtype=float)
    middle = float(values.mean())
    if values.size < 2:
        return Interval(middle, middle, middle, sound=False)
    half = float(stdtrit(values.size - 1, 0.5 + confidence / 2) * values.std(ddof=1) / np.sqrt(values.size))
    return Interval(middle - half, middle, middle + half)
