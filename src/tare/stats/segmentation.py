"""The best cut of a series into pieces, each flat or straight: exact, by dynamic programming on running sums."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Places = NDArray[np.intp]

# Beyond this many possible cuts only every second, third... place is one; the caller finds the place within.
MOST_PLACES = 1000


class Piece(NamedTuple):
    """A flat or straight fit of values[start:stop]: its value and the variance of that value (for noise of
    variance 1) at the first and at the last point."""

    start: int
    stop: int
    first: float
    last: float
    spread: float

    @property
    def size(self) -> int:
        return self.stop - self.start


class Sums:
    """Sums of squares about the best flat and the best straight line of any stretch, in constant time."""

    def __init__(self, values: Numbers) -> None:
        centred = values - values.mean()
        at = np.arange(values.size, dtype=np.float64) - values.size / 2
        self.offset = float(values.mean())
        self._y, self._yy = _running(centred), _running(centred**2)
        self._t, self._tt, self._ty = _running(at), _running(at**2), _running(at * centred)

    def costs(self, start: Places, stop: Places | int) -> tuple[Numbers, Numbers]:
        """Flat and straight, for stretches start[i] to stop."""
        n = np.maximum(stop - start, 1).astype(float)
        y, t = self._y[stop] - self._y[start], self._t[stop] - self._t[start]
        flat = self._yy[stop] - self._yy[start] - y**2 / n
        tt = self._tt[stop] - self._tt[start] - t**2 / n
        ty = self._ty[stop] - self._ty[start] - t * y / n
        # A stretch of one point has no slope; rounding must leave no cost below zero.
        gain = np.divide(ty**2, tt, out=np.zeros_like(tt), where=tt > 1e-9)
        return np.maximum(flat, 0.0), np.maximum(flat - gain, 0.0)

    def piece(self, start: int, stop: int, slope_penalty: float) -> Piece:
        a, b = np.array([start]), np.array([stop])
        flat, straight = (float(cost[0]) for cost in self.costs(a, b))
        n = stop - start
        mean = float(self._y[stop] - self._y[start]) / n + self.offset
        if flat <= straight + slope_penalty or n < 3:
            return Piece(start, stop, mean, mean, 1 / n)
        half = (n - 1) / 2
        square = n * (n**2 - 1) / 12
        t = float(self._t[stop] - self._t[start])
        ty = float(self._ty[stop] - self._ty[start]) - t * float(self._y[stop] - self._y[start]) / n
        slope = ty / square
        return Piece(start, stop, mean - slope * half, mean + slope * half, 1 / n + half**2 / square)


class Cuts:
    """All stretches between possible cuts, costed once; the best cuts for any penalties come from them."""

    def __init__(self, sums: Sums, size: int, shortest: int) -> None:
        stride = max(math.ceil(size / MOST_PLACES), 1)
        self._places = np.append(np.arange(0, size, stride), size)
        # A row for each end of a stretch, a column for each start, for the search goes along rows. Half of them
        # end before they start, and have no meaning.
        stops, starts = self._places[:, None], self._places[None, :]
        flat, straight = sums.costs(starts, stops)
        allowed = stops - starts >= shortest
        self._flat = np.where(allowed, flat, np.inf)
        self._straight = np.where(allowed, straight, np.inf)

    def best(self, penalty: float, slope_penalty: float) -> list[int]:
        """The cuts that minimise the sum of squares plus `penalty` a cut and `slope_penalty` a sloping piece.

        Optimal partitioning (Jackson et al., 2005). PELT's pruning (Killick et al., 2012) is left out: where there
        are few cuts, which is usual here, it removes nothing.
        """
        costs = np.minimum(self._flat, self._straight + slope_penalty) + penalty
        best = np.full(self._places.size, np.inf)
        best[0] = -penalty
        before = np.zeros(self._places.size, dtype=np.intp)
        for i in range(1, self._places.size):
            # What is too short has an infinite cost, and so has what can only be reached by it.
            total = best[:i] + costs[i, :i]
            before[i] = int(np.argmin(total))
            best[i] = total[before[i]]
        cuts: list[int] = []
        i = int(before[-1])
        while i > 0:
            cuts.append(int(self._places[i]))
            i = int(before[i])
        return cuts[::-1]


def curve_cost(values: Numbers, degree: int) -> float:
    """The sum of squares about the best polynomial."""
    basis, _ = np.linalg.qr(np.polynomial.legendre.legvander(np.linspace(-1, 1, values.size), degree))
    rest = values - basis @ (basis.T @ values)
    return float(rest @ rest)


def _running(values: Numbers) -> Numbers:
    return np.concatenate(([0.0], np.cumsum(values)))
