"""Does a figure grow step by step? The slope of a series with its interval: the arithmetic of a leak check."""

from collections.abc import Sequence

import numpy as np

from tare.stats.intervals import Interval

# All pairs of points enter the slope: beyond this many points an even selection says as much.
MOST_POINTS = 300
FEWEST_POINTS = 4


def growth(steps: Sequence[float], values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Growth per step within one process, by the median of all pairs' slopes (Theil, 1950; Sen, 1968).

    It shrugs off single jumps. What grew once and then stays is no leak, so the estimate is the smaller of the two
    halves' slopes: a leak goes on. None where there are too few points, or the steps do not advance.
    """
    from scipy.stats import theilslopes

    x, y = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    if x.size > MOST_POINTS:
        chosen = np.linspace(0, x.size - 1, MOST_POINTS).astype(int)
        x, y = x[chosen], y[chosen]
    middle = x.size // 2
    if middle < FEWEST_POINTS or any(np.unique(part).size < 2 for part in (x[:middle], x[middle:])):
        return None
    slopes = [theilslopes(y[part], x[part], confidence) for part in (slice(0, middle), slice(middle, None))]
    least = min(slopes, key=lambda slope: abs(float(slope[0])))
    return Interval(float(least[2]), float(least[0]), float(least[3]))


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
