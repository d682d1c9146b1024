"""Does a series rise: its slope per position, with an interval."""

from collections.abc import Sequence

import numpy as np

from tare.stats.intervals import Interval

# Fewer points than this cannot bound a slope at 95 %: the rank test has no outcome so rare.
FEWEST = 5


def slope_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The median of the slopes between all pairs of points (Theil, Sen) with the interval of Kendall's statistic.

    Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968). One wild point (a step in
    which a cache was filled) does not move it, unlike least squares. Not sound with fewer than five points.
    """
    if len(values) < 2:
        raise ValueError("a slope needs two points")
    from scipy.stats import theilslopes

    points = np.asarray(values, dtype=float)
    middle, _, low, high = theilslopes(points, alpha=confidence)
    return Interval(float(low), float(middle), float(high), sound=len(values) >= FEWEST)
