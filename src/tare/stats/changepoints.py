"""Steps in a series of positive figures: where, how large, how sure. Drift, outliers and correlation are no steps.

Penalised likelihood on logarithms: pieces that are flat or straight (so a drift needs no cut), outliers clipped,
and the penalty in units of the long-run variance (so correlated noise needs no cut). Our own because asv's misses
small steps and Hunter's (apache-otava) takes correlation and outliers for steps: docs/history.md has the table.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.stats.intervals import Interval
from tare.stats.segmentation import Cuts, Piece, Sums, curve_cost
from tare.stats.series_noise import Noise, clipped, series_noise

Numbers = NDArray[np.float64]

# Chosen by simulation so that a series without a step raises an alarm about once in a hundred
# (docs/history.md has the rates): what a cut costs, in variances, for a series of n points.
BASE_PENALTY, LOG_PENALTY = 4.5, 2.0
SLOPE_SHARE = 0.5
# A step must explain this much more than a smooth curve through the same points, or it is a drift.
CURVE_DEGREE, CURVE_MARGIN, CURVE_PENALTY = 3, 2.0, 0.5
CONFIDENCE = 0.95
REFINEMENTS = 10
SHORTEST = 4


class Step(NamedTuple):
    """The series is at `before` up to `at - 1` and at `after` from `at` on; the first point after the step
    lies in `earliest` to `latest` with 95 % confidence. `ratio` is after over before."""

    at: int
    earliest: int
    latest: int
    before: float
    after: float
    ratio: Interval


class Course(NamedTuple):
    """What a series is made of. `pieces` are (start, stop, first value, last value); `noise` is relative."""

    steps: list[Step]
    pieces: list[tuple[int, int, float, float]]
    noise: float
    correlation: float


def shortest_plateau(size: int) -> int:
    """Fewer points than this on one side of a step are outliers. Grows slowly, for chance has more room."""
    return max(math.ceil(math.log(max(size, 2))) + 1, SHORTEST)


def find_steps(values: Sequence[float] | Numbers) -> Course:
    """The steps of a series of positive, finite figures in their order."""
    series = np.asarray(values, dtype=float)
    if not (np.isfinite(series).all() and (series > 0).all()):
        raise ValueError("a series holds positive, finite figures")
    size, shortest = series.size, shortest_plateau(series.size)
    if size == 0:
        return Course([], [], 0.0, 0.0)
    logs = clipped(np.log(series), shortest)
    if size < 2 * shortest or logs.min() == logs.max():
        level = math.exp(float(np.median(logs)))
        return Course([], [(0, size, level, level)], float(logs.std()), 0.0)
    penalty = BASE_PENALTY + LOG_PENALTY * math.log(size)
    sums = Sums(logs)
    possible = Cuts(sums, size, shortest)
    noise = series_noise(logs, sums, possible, penalty, SLOPE_SHARE * penalty)
    scaled = logs / math.sqrt(noise.long_run)
    found = _Found(scaled, noise, shortest, SLOPE_SHARE * penalty)
    cuts = possible.best(noise.long_run * penalty, noise.long_run * found.slope_penalty)
    return found.course(found.refined(found.without_drift(found.refined(cuts))))


def every_change(values: Sequence[float]) -> Course:
    """The steps of a series without noise, such as a count: wherever it changes. Zeros are figures like others."""
    starts = [i for i in range(len(values)) if i == 0 or values[i] != values[i - 1]]
    pieces = [(a, b, values[a], values[a]) for a, b in pairwise([*starts, len(values)])]
    steps = []
    for at in starts[1:]:
        before, after = values[at - 1], values[at]
        ratio = after / before if before else math.inf
        steps.append(Step(at, at, at, before, after, Interval(ratio, ratio, ratio)))
    return Course(steps, pieces, 0.0, 0.0)


class _Found:
    """Cuts of one series, on logarithms in units of the long-run deviation."""

    def __init__(self, scaled: Numbers, noise: Noise, shortest: int, slope_penalty: float) -> None:
        self.sums, self.slope_penalty = Sums(scaled), slope_penalty
        self._scaled, self._noise, self._shortest = scaled, noise, shortest

    def refined(self, cuts: list[int]) -> list[int]:
        """Each cut moved to its best place between its neighbours, until none moves: a search that looked at every
        third place only is out by a little everywhere."""
        for _ in range(REFINEMENTS):
            before = list(cuts)
            for i in range(len(cuts)):
                low, high = self._window(cuts, i)
                places = self._places(low, high)
                cuts[i] = int(places[np.argmin(self._profile(low, high, places))])
            if cuts == before:
                break
        return cuts

    def without_drift(self, cuts: list[int]) -> list[int]:
        """Drops, the weakest first, every cut whose surroundings a smooth curve explains about as well."""
        cuts = list(cuts)
        while cuts:
            evidence = [self._over_curve(cuts, i) for i in range(len(cuts))]
            weakest = int(np.argmin(evidence))
            if evidence[weakest] >= CURVE_MARGIN:
                break
            del cuts[weakest]
        return cuts

    def course(self, cuts: list[int]) -> Course:
        edges = [0, *cuts, self._scaled.size]
        pieces = [self.sums.piece(a, b, self.slope_penalty) for a, b in pairwise(edges)]
        steps = [self._step(cuts, i, pieces[i], pieces[i + 1]) for i in range(len(cuts))]
        shown = [(p.start, p.stop, self._value(p.first), self._value(p.last)) for p in pieces]
        return Course(steps, shown, math.sqrt(self._noise.variance), self._noise.correlation)

    def _step(self, cuts: list[int], i: int, left: Piece, right: Piece) -> Step:
        from scipy.special import stdtrit

        unit = math.sqrt(self._noise.long_run)
        size = (right.first - left.last) * unit
        freedom = max((left.stop - left.start + right.stop - right.start) / self._noise.inflation - 2, 1.0)
        half = float(stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * unit * math.sqrt(left.spread + right.spread)
        low, middle, high = (math.exp(min(each, 700.0)) for each in (size - half, size, size + half))
        ratio = Interval(low, middle, high)
        earliest, latest = self._range(cuts, i)
        return Step(cuts[i], earliest, latest, self._value(left.last), self._value(right.first), ratio)

    def _range(self, cuts: list[int], i: int) -> tuple[int, int]:
        """The places whose likelihood is close enough to the best one's.

        The excess of the best over the true place is the greater of the maxima of two random walks with a drift;
        each exceeds x with probability exp(-x) at most (Siegmund, Confidence sets in change-point problems, 1988).
        """
        low, high = self._window(cuts, i)
        places = self._places(low, high)
        profile = self._profile(low, high, places)
        limit = -math.log(1 - math.sqrt(CONFIDENCE))
        near = places[profile <= profile.min() + 2 * limit]
        return int(near[0]), int(near[-1])

    def _window(self, cuts: list[int], i: int) -> tuple[int, int]:
        edges = [0, *cuts, self._scaled.size]
        return edges[i], edges[i + 2]

    def _places(self, low: int, high: int) -> NDArray[np.intp]:
        # Near a cut that was moved a piece may be shorter than it should; there is always a place left.
        shortest = max(min(self._shortest, (high - low) // 2), 1)
        return np.arange(low + shortest, high - shortest + 1)

    def _profile(self, low: int, high: int, places: NDArray[np.intp]) -> Numbers:
        flat, straight = self.sums.costs(np.full_like(places, low), places)
        left = np.minimum(flat, straight + self.slope_penalty)
        flat, straight = self.sums.costs(places, high)
        return left + np.minimum(flat, straight + self.slope_penalty)

    def _over_curve(self, cuts: list[int], i: int) -> float:
        low, high = self._window(cuts, i)
        stepped = float(self._profile(low, high, np.array([cuts[i]]))[0])
        degrees = range(1, CURVE_DEGREE + 1)
        curves = [curve_cost(self._scaled[low:high], d) + CURVE_PENALTY * (d - 1) for d in degrees]
        return min(curves) - stepped

    def _value(self, scaled: float) -> float:
        return math.exp(min(scaled * math.sqrt(self._noise.long_run), 700.0))
