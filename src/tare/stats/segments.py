"""The best partition of a series into segments, each flat or straight: exact, by dynamic programming."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Positions = NDArray[np.intp]
# The positions of possible cuts, and the flat and straight costs of every stretch between two of them.
CandidateCosts = tuple[Positions, Numbers, Numbers]

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


class SegmentCosts:
    """Sums of squares about the best flat and the best straight line of any stretch, in constant time."""

    def __init__(self, values: Numbers) -> None:
        centred = values - values.mean()
        t = np.arange(values.size, dtype=np.float64) - values.size / 2
        self._offset = float(values.mean())
        self._y, self._yy = _running_sum(centred), _running_sum(centred**2)
        self._t, self._tt, self._ty = _running_sum(t), _running_sum(t**2), _running_sum(t * centred)

    def costs(self, start: Positions, stop: Positions | int) -> tuple[Numbers, Numbers]:
        """Flat and straight, for stretches start[i] to stop."""
        n = np.maximum(stop - start, 1).astype(float)
        y, t = self._y[stop] - self._y[start], self._t[stop] - self._t[start]
        flat = self._yy[stop] - self._yy[start] - y**2 / n
        tt = self._tt[stop] - self._tt[start] - t**2 / n
        ty = self._ty[stop] - self._ty[start] - t * y / n
        # A stretch of one point has no slope. Rounding must leave no cost below zero.
        gain = np.divide(ty**2, tt, out=np.zeros_like(tt), where=tt > 1e-9)
        return np.maximum(flat, 0.0), np.maximum(flat - gain, 0.0)

    def segment(self, start: int, stop: int, slope_penalty: float) -> Segment:
        flat, straight = (float(cost[0]) for cost in self.costs(np.array([start]), np.array([stop])))
        n = stop - start
        total = float(self._y[stop] - self._y[start])
        mean = total / n + self._offset
        if flat <= straight + slope_penalty or n < 3:
            return Segment(start, stop, mean, mean, 1 / n)
        half = (n - 1) / 2
        square = n * (n**2 - 1) / 12
        ty = float(self._ty[stop] - self._ty[start]) - float(self._t[stop] - self._t[start]) * total / n
        slope = ty / square
        return Segment(start, stop, mean - slope * half, mean + slope * half, 1 / n + half**2 / square)


def candidate_costs(costs: SegmentCosts, size: int, shortest: int) -> CandidateCosts:
    """The cost of every stretch between possible cuts; the best cuts for any penalties follow from them."""
    stride = max(math.ceil(size / MAX_POSITIONS), 1)
    positions = np.append(np.arange(0, size, stride), size)
    # A row for each end of a stretch and a column for each start, because the search goes along rows.
    stops, starts = positions[:, None], positions[None, :]
    flat, straight = costs.costs(starts, stops)
    allowed = stops - starts >= shortest
    return positions, np.where(allowed, flat, np.inf), np.where(allowed, straight, np.inf)


def best_cuts(candidates: CandidateCosts, penalty: float, slope_penalty: float) -> list[int]:
    """The cuts that minimise the sum of squares plus `penalty` a cut and `slope_penalty` a sloping segment.

    Optimal partitioning (Jackson et al., 2005), without PELT's pruning (Killick et al., 2012), which removes
    nothing where there are few cuts.
    """
    positions, flat, straight = candidates
    costs = np.minimum(flat, straight + slope_penalty) + penalty
    best = np.full(positions.size, np.inf)
    best[0] = -penalty
    previous = np.zeros(positions.size, dtype=np.intp)
    for i in range(1, positions.size):
        # A stretch that is too short has an infinite cost, and so has a cut that only such stretches reach.
        total = best[:i] + costs[i, :i]
        previous[i] = int(np.argmin(total))
        best[i] = total[previous[i]]
    cuts: list[int] = []
    i = int(previous[-1])
    while i > 0:
        cuts.append(int(positions[i]))
        i = int(previous[i])
    return cuts[::-1]


def curve_cost(values: Numbers, degree: int) -> float:
    """The sum of squares about the best polynomial."""
    basis, _ = np.linalg.qr(np.polynomial.legendre.legvander(np.linspace(-1, 1, values.size), degree))
    residuals = values - basis @ (basis.T @ values)
    return float(residuals @ residuals)


def _running_sum(values: Numbers) -> Numbers:
    return np.concatenate(([0.0], np.cumsum(values)))
