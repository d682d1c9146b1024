"""Slopes: does a series rise, and does a figure grow step by step in every process (a leak)?"""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tare.stats.intervals import Interval

# With fewer points the rank test has no result rare enough to bound a slope at 95 %.
MIN_SOUND_POINTS = 5
# The slope uses all pairs of points; more points than this are thinned out evenly.
MAX_POINTS = 300
MIN_POINTS = 3


def slope_interval(values: ArrayLike, positions: ArrayLike | None = None, confidence: float = 0.95) -> Interval:
    """The median of the slopes between all pairs of points (Theil, Sen) with the interval of Kendall's statistic.

    Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968), with the variance of his
    equation 2.6. Unlike least squares, one outlier (a step in which a cache was filled) does not move it. Not
    sound with fewer than five points. This is scipy's theilslopes without importing scipy.stats, which takes
    longer than explaining a trace of 50 MB.
    """
    y = np.asarray(values, dtype=float)
    if y.size < 2:
        raise ValueError("a slope needs two points")
    x = np.arange(y.size, dtype=float) if positions is None else np.asarray(positions, dtype=float)
    apart = x[:, np.newaxis] - x
    later = apart > 0
    slopes = np.sort((y[:, np.newaxis] - y)[later] / apart[later])
    if not slopes.size:
        raise ValueError("a slope needs two positions")
    untied = y.size * (y.size - 1) * (2 * y.size + 5) - _ties(x) - _ties(y)
    reach = -NormalDist().inv_cdf((1 - confidence) / 2) * np.sqrt(untied / 18)
    high = min(round((slopes.size + reach) / 2), slopes.size - 1)
    low = max(round((slopes.size - reach) / 2) - 1, 0)
    bounds = float(slopes[low]), float(np.median(slopes)), float(slopes[high])
    return Interval(*bounds, sound=y.size >= MIN_SOUND_POINTS)


def _ties(values: NDArray[np.float64]) -> int:
    """What values that occur several times take off the variance of Kendall's statistic."""
    counts = np.unique(values, return_counts=True)[1]
    return int((counts * (counts - 1) * (2 * counts + 5)).sum())


def growth(steps: Sequence[float], values: Sequence[float]) -> float | None:
    """Growth per step within one process: the smaller of the Theil-Sen slopes of the series' two halves.

    A figure that grew once and then stays is no leak, because a leak continues; halves with slopes of opposite
    sign give zero. None where there are too few points, or the steps do not advance.
    """
    x, y = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    if x.size > MAX_POINTS:
        chosen = np.linspace(0, x.size - 1, MAX_POINTS).astype(int)
        x, y = x[chosen], y[chosen]
    middle = x.size // 2
    # The middle point belongs to both halves, so that three points have two halves.
    halves = (slice(0, middle + 1), slice(middle, None))
    if x.size < MIN_POINTS or any(np.unique(x[half]).size < 2 for half in halves):
        return None
    first, second = (slope_interval(y[half], x[half]).mid for half in halves)
    return 0.0 if first * second <= 0 else min(first, second, key=abs)
