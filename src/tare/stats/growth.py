"""Does a figure grow step by step? The slope of a series with its interval: the arithmetic of a leak check."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tare.stats.intervals import Interval

# All pairs of points enter the slope: beyond this many points an even selection says as much.
MOST_POINTS = 300
FEWEST_POINTS = 3


def growth(steps: Sequence[float], values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Growth per step within one process, by the median of all pairs' slopes (Theil, 1950; Sen, 1968).

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
    first, second = (_slope(x[half], y[half], confidence) for half in halves)
    if first.mid * second.mid <= 0:
        return Interval(min(first.mid, second.mid), 0.0, max(first.mid, second.mid))
    return min(first, second, key=lambda slope: abs(slope.mid))


def _slope(x: NDArray[np.float64], y: NDArray[np.float64], confidence: float) -> Interval:
    from scipy.stats import theilslopes

    if np.unique(x).size < 4:
        # Too few for an interval of their own: that comes from the other processes.
        slope = float((y[-1] - y[0]) / (x[-1] - x[0]))
        return Interval(slope, slope, slope, sound=False)
    found = theilslopes(y, x, confidence)
    return Interval(float(found[2]), float(found[0]), float(found[3]))


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
