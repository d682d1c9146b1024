"""Does a series rise: its slope, with an interval."""

import numpy as np
from numpy.typing import ArrayLike

from tare.stats.intervals import Interval

# Fewer points than this cannot bound a slope at 95 %: the rank test has no outcome so rare.
FEWEST = 5


def slope_interval(values: ArrayLike, at: ArrayLike | None = None, confidence: float = 0.95) -> Interval:
    """The median of the slopes between all pairs of points (Theil, Sen) with the interval of Kendall's statistic.

    Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968). One wild point (a step in
    which a cache was filled) does not move it, unlike least squares. Not sound with fewer than five points. `at`
    are their positions, where those are not 0, 1, 2...
    """
    points = np.asarray(values, dtype=float)
    if points.size < 2:
        raise ValueError("a slope needs two points")
    from scipy.stats import theilslopes

    middle, _, low, high = theilslopes(points, None if at is None else np.asarray(at, dtype=float), confidence)
    return Interval(float(low), float(middle), float(high), sound=points.size >= FEWEST)
