"""The best partition of a series into segments, each flat or straight: exact, by dynamic programming."""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.stats.intervals import Values

Positions = NDArray[np.intp]

# A longer series is cut only at every second, third... position; the caller refines the position afterwards.
MAX_POSITIONS = 1000


class Segment(NamedTuple):
    """A flat or straight fit of values[start:stop]: its value at the first and at the last point, and the variance
    of those values for noise of variance 1."""

    start: int
    stop: int
    first: float
    last: float
    variance: float

    @property
    def size(self) -> int:
        return self.stop - self.start


class SegmentFits:
    """The best flat and the best straight line of any stretch of a series, in constant time."""

    def __init__(self, values: Values, shortest: int) -> None:
        centred = values - values.mean()
        t = np.arange(values.size, dtype=np.float64) - values.size / 2
        self._values = values
        self._y, self._yy, self._t, self._tt, self._ty = (
            np.concatenate(([0.0], np.cumsum(each))) for each in (centred, centred**2, t, t**2, t * centred)
        )
        # The costs between possible cuts: a row for each end of a stretch and a column for each start, because the
        # search goes along rows.
        self._positions = np.append(np.arange(0, values.size, math.ceil(values.size / MAX_POSITIONS)), values.size)
        starts, stops = self._positions[None, :], self._positions[:, None]
        too_short = stops - starts < shortest
        self._flat, self._straight = (np.where(too_short, np.inf, cost) for cost in self._costs(starts, stops))

    def cost(self, start: Positions | int, stop: Positions | int, slope_penalty: float) -> Values:
        """The sum of squares about the better line; a slope costs `slope_penalty`."""
        flat, straight = self._costs(np.asarray(start), np.asarray(stop))
        return np.minimum(flat, straight + slope_penalty)

    def segments(self, cuts: list[int], slope_penalty: float) -> list[Segment]:
        return [self._segment(a, b, slope_penalty) for a, b in pairwise([0, *cuts, self._values.size])]

    def best_cuts(self, penalty: float, slope_penalty: float) -> list[int]:
        """The cuts that minimise the sum of squares plus `penalty` a cut and `slope_penalty` a sloping segment.

        Optimal partitioning (Jackson et al., 2005), without PELT's pruning (Killick et al., 2012), which removes
        nothing where there are few cuts.
        """
        costs = np.minimum(self._flat, self._straight + slope_penalty) + penalty
        best = np.full(self._positions.size, np.inf)
        best[0] = -penalty
        previous = np.zeros(self._positions.size, dtype=np.intp)
        for i in range(1, self._positions.size):
            # A stretch that is too short has an infinite cost, and so has a cut that only such stretches reach.
            total = best[:i] + costs[i, :i]
            previous[i] = int(np.argmin(total))
            best[i] = total[previous[i]]
        cuts: list[int] = []
        i = int(previous[-1])
        while i > 0:
            cuts.append(int(self._positions[i]))
            i = int(previous[i])
        return cuts[::-1]

    def _costs(self, start: Positions, stop: Positions) -> tuple[Values, Values]:
        n = np.maximum(stop - start, 1).astype(float)
        y, t = self._y[stop] - self._y[start], self._t[stop] - self._t[start]
        flat = self._yy[stop] - self._yy[start] - y**2 / n
        tt = self._tt[stop] - self._tt[start] - t**2 / n
        ty = self._ty[stop] - self._ty[start] - t * y / n
        # A stretch of one point has no slope. Rounding must leave no cost below zero.
        gain = np.divide(ty**2, tt, out=np.zeros_like(tt), where=tt > 1e-9)
        return np.maximum(flat, 0.0), np.maximum(flat - gain, 0.0)

    def _segment(self, start: int, stop: int, slope_penalty: float) -> Segment:
        values, n = self._values[start:stop], stop - start
        flat, straight = self._costs(np.array(start), np.array(stop))
        if flat <= straight + slope_penalty or n < 3:
            mean = float(values.mean())
            return Segment(start, stop, mean, mean, 1 / n)
        half = (n - 1) / 2
        slope, mean = np.polyfit(np.arange(n) - half, values, 1).tolist()
        # The sum of squares of n positions about their mean is n (n² - 1) / 12.
        variance = 1 / n + half**2 / (n * (n**2 - 1) / 12)
        return Segment(start, stop, mean - slope * half, mean + slope * half, variance)
