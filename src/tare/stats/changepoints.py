"""Change points in a series of positive figures: where, how large, how sure.

Penalised likelihood on logarithms. Segments are flat or straight, so that a drift needs no change point; outliers
are clipped; and the penalty is in units of the long-run variance, so that correlated noise needs no change point
either. Our own because asv's method misses small changes and Hunter's (apache-otava) takes correlation and
outliers for changes: docs/history.md has the table.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import legfit

from tare.stats.intervals import Interval, Values, student_interval
from tare.stats.segments import Positions, SegmentFits

# The penalty of a change point, in variances, for a series of n points. Chosen by simulation so that a series
# without a change raises an alarm about once in a hundred (docs/history.md has the rates).
BASE_PENALTY, LOG_PENALTY = 4.5, 2.0
SLOPE_SHARE = 0.5
# A change must explain this much more than a smooth curve through the same points, or it is a drift.
CURVE_DEGREE, CURVE_MARGIN, CURVE_PENALTY = 3, 2.0, 0.5
CONFIDENCE = 0.95
MAX_REFINEMENTS = 10
SHORTEST = 4

# The scale of a normal distribution from a median absolute deviation.
NORMAL = 1.4826
# An outlier counts for at most this many scales beside its neighbours.
CLIP = 3.0
# A change is one great difference among many small ones and must not count as noise.
CLIP_DIFFERENCE = 4.5
# Penalties tried in the search for the noise, in units of the penalty for independent points.
PENALTY_FACTORS = (1, 3, 9, 27, 81, 1e9)
# The penalty in the choice among them. In doubt it is correlation, which raises no alarm.
NOISE_PENALTY = 1.25
# No measurement is more precise than this; counts are, and then any difference is a change.
TINY = 1e-16
MAX_CORRELATION = 0.95
# The correlation of a short series is poorly known, and too low an estimate raises alarms: this share of its
# standard error is added, and more the higher it is. Chosen by simulation: docs/history.md has the resulting
# rates.
CORRELATION_MARGIN = 0.4


class ChangePoint(NamedTuple):
    """The series is at `before` up to `position - 1` and at `after` from `position` on. The first point after the
    change lies in `earliest` to `latest` with 95 % confidence. `ratio` is after over before."""

    position: int
    earliest: int
    latest: int
    before: float
    after: float
    ratio: Interval


class Segmentation(NamedTuple):
    """`segments` are (start, stop, first value, last value); `noise` is relative."""

    change_points: list[ChangePoint]
    segments: list[tuple[int, int, float, float]]
    noise: float
    correlation: float


class Noise(NamedTuple):
    """`variance` of one point, `correlation` of neighbours, and `inflation`: how many times as uncertain a mean is
    as the mean of independent points."""

    variance: float
    correlation: float
    inflation: float


def shortest_segment(size: int) -> int:
    """Fewer points than this on one side of a change are outliers. Grows slowly with the series, because a longer
    one gives chance more room."""
    return max(math.ceil(math.log(max(size, 2))) + 1, SHORTEST)


def find_change_points(values: Sequence[float] | Values) -> Segmentation:
    """The change points of a series of positive, finite figures, in order."""
    series = np.asarray(values, dtype=float)
    if not (np.isfinite(series).all() and (series > 0).all()):
        raise ValueError("a series holds positive, finite figures")
    size, shortest = series.size, shortest_segment(series.size)
    if size == 0:
        return Segmentation([], [], 0.0, 0.0)
    logs = _clip_outliers(np.log(series), shortest)
    if size < 2 * shortest or logs.min() == logs.max():
        level = math.exp(float(np.median(logs)))
        return Segmentation([], [(0, size, level, level)], float(logs.std()), 0.0)
    return _ChangePointSearch(logs, shortest).find()


def every_change(values: Sequence[float]) -> Segmentation:
    """The change points of a series without noise, such as a count: wherever it changes. Zeros are allowed."""
    starts = [i for i in range(len(values)) if i == 0 or values[i] != values[i - 1]]
    segments = [(a, b, values[a], values[a]) for a, b in pairwise([*starts, len(values)])]
    change_points = []
    for position in starts[1:]:
        before, after = values[position - 1], values[position]
        ratio = after / before if before else math.inf
        change_points.append(
            ChangePoint(position, position, position, before, after, Interval(ratio, ratio, ratio))
        )
    return Segmentation(change_points, segments, 0.0, 0.0)


class _ChangePointSearch:
    """Works on logarithms; its penalties are in units of their long-run variance."""

    def __init__(self, logs: Values, shortest: int) -> None:
        self._logs, self._shortest = logs, shortest
        self._fits = SegmentFits(logs, shortest)
        penalty = BASE_PENALTY + LOG_PENALTY * math.log(logs.size)
        self._noise = _series_noise(logs, self._fits, penalty)
        self._unit = self._noise.variance * self._noise.inflation
        self._penalty, self._slope_penalty = self._unit * penalty, self._unit * SLOPE_SHARE * penalty

    def find(self) -> Segmentation:
        cuts = self._refine(self._fits.best_cuts(self._penalty, self._slope_penalty))
        cuts = self._refine(self._drop_drift(cuts))
        segments = self._fits.segments(cuts, self._slope_penalty)
        change_points = []
        for i, (left, right) in enumerate(pairwise(segments)):
            freedom = max((left.size + right.size) / self._noise.inflation - 2, 1.0)
            variance = (left.variance + right.variance) * self._unit
            ratio = student_interval(right.first - left.last, variance, freedom, CONFIDENCE).exp()
            before, after = _exp(left.last), _exp(right.first)
            change_points.append(ChangePoint(cuts[i], *self._range(cuts, i), before, after, ratio))
        values = [(s.start, s.stop, _exp(s.first), _exp(s.last)) for s in segments]
        return Segmentation(change_points, values, math.sqrt(self._noise.variance), self._noise.correlation)

    def _refine(self, cuts: list[int]) -> list[int]:
        """Moves each cut to its best position between its neighbours until none moves: in a long series the search
        considers only every second or third position."""
        for _ in range(MAX_REFINEMENTS):
            before = list(cuts)
            for i in range(len(cuts)):
                positions, costs = self._profile(cuts, i)
                cuts[i] = int(positions[np.argmin(costs)])
            if cuts == before:
                break
        return cuts

    def _drop_drift(self, cuts: list[int]) -> list[int]:
        """Drops, the weakest first, every cut whose surroundings a smooth curve explains about as well."""
        cuts = list(cuts)
        while cuts:
            evidence = [self._gain_over_curve(cuts, i) for i in range(len(cuts))]
            weakest = int(np.argmin(evidence))
            if evidence[weakest] >= CURVE_MARGIN:
                break
            del cuts[weakest]
        return cuts

    def _range(self, cuts: list[int], i: int) -> tuple[int, int]:
        """The positions whose likelihood is close enough to that of the best one.

        The excess of the best over the true position is the greater of the maxima of two random walks with a
        drift; each exceeds x with probability exp(-x) at most (Siegmund, Confidence sets in change-point problems,
        1988).
        """
        positions, costs = self._profile(cuts, i)
        limit = -math.log(1 - math.sqrt(CONFIDENCE))
        near = positions[costs <= costs.min() + 2 * limit * self._unit]
        return int(near[0]), int(near[-1])

    def _profile(self, cuts: list[int], i: int) -> tuple[Positions, Values]:
        """The possible positions of a cut between its neighbours, and the cost at each."""
        low, high = self._window(cuts, i)
        # Beside a cut that was moved a segment may be shorter than allowed; there must be a position all the same.
        shortest = max(min(self._shortest, (high - low) // 2), 1)
        positions = np.arange(low + shortest, high - shortest + 1)
        return positions, self._cost_of_cut(low, positions, high)

    def _gain_over_curve(self, cuts: list[int], i: int) -> float:
        """By how much the cut explains its window better than the best curve does, in units of the variance."""
        low, high = self._window(cuts, i)
        values = self._logs[low:high] / math.sqrt(self._unit)
        curves = []
        for degree in range(1, CURVE_DEGREE + 1):
            _, (squares, *_) = legfit(np.linspace(-1, 1, values.size), values, degree, full=True)
            curves.append(float(squares.sum()) + CURVE_PENALTY * (degree - 1))
        return min(curves) - float(self._cost_of_cut(low, np.array(cuts[i]), high)) / self._unit

    def _window(self, cuts: list[int], i: int) -> tuple[int, int]:
        edges = [0, *cuts, self._logs.size]
        return edges[i], edges[i + 2]

    def _cost_of_cut(self, low: int, positions: Positions, high: int) -> Values:
        left = self._fits.cost(low, positions, self._slope_penalty)
        return left + self._fits.cost(positions, high, self._slope_penalty)


def _exp(value: float) -> float:
    """A fitted line may end a little above the largest float."""
    return math.exp(min(value, 700.0))


def _clip_outliers(values: Values, half: int) -> Values:
    """Clips values to their running median (Hampel's filter, clipping instead of replacing). A plateau of more
    than `half` points is not changed."""
    from scipy.ndimage import median_filter

    half = min(half, (values.size - 1) // 2)
    medians: Values = median_filter(values, 2 * half + 1, mode="mirror")
    residuals = values - medians
    scale = NORMAL * float(np.median(np.abs(residuals)))
    if scale == 0:
        return values
    return medians + np.clip(residuals, -CLIP * scale, CLIP * scale)


def _series_noise(values: Values, fits: SegmentFits, penalty: float) -> Noise:
    """Variance and correlation of autoregressive noise in a series that may hold changes and drift.

    A change looks like correlation and correlation looks like changes, so both are fitted: segmentations from many
    cuts to none, and for each the likelihood of the residuals as an AR(1) process (the model of Chakar et al., A
    robust approach for estimating change-points in the mean of an AR(1) process, 2017). The best of them, at
    `penalty` a cut, gives the noise. The mean of correlated points is (1 + r) / (1 - r) times as uncertain as that
    of independent ones.
    """
    differences = np.diff(values)
    if scale := NORMAL * float(np.median(np.abs(differences))):
        # A few great differences between neighbours are changes.
        differences = np.clip(differences, -CLIP_DIFFERENCE * scale, CLIP_DIFFERENCE * scale)
    white = float(np.mean(differences**2)) / 2
    scored: dict[tuple[int, ...], tuple[float, Noise]] = {}
    for factor in PENALTY_FACTORS:
        unit = factor * white * penalty
        cuts = fits.best_cuts(unit, SLOPE_SHARE * unit)
        if tuple(cuts) in scored:
            continue
        segments = fits.segments(cuts, SLOPE_SHARE * unit)
        residuals = values - np.concatenate([np.linspace(s.first, s.last, s.size) for s in segments])
        parameters = sum(2 if s.first != s.last else 1 for s in segments)
        score, noise = _fit_autoregression(residuals, parameters)
        scored[tuple(cuts)] = score + len(cuts) * NOISE_PENALTY * penalty, noise
    return min(scored.values(), key=lambda fit: fit[0])[1]


def _fit_autoregression(residuals: Values, parameters: int) -> tuple[float, Noise]:
    """Twice the negative log likelihood (up to a constant) of residuals as an AR(1) process, and its noise."""
    n = residuals.size
    power = float(residuals @ residuals)
    if power <= n * TINY:
        return n * math.log(TINY), Noise(TINY, 0.0, 1.0)
    raw = float(residuals[1:] @ residuals[:-1]) / power
    # Residuals about fitted levels are correlated too little, by about this (Kendall, 1954, for one level).
    correlation = min(max(raw + (1 + 3 * max(raw, 0.0)) * parameters / n, 0.0), MAX_CORRELATION)
    innovations = residuals[1:] - correlation * residuals[:-1]
    score = n * math.log(max(float(innovations @ innovations) / (n - 1), TINY))
    margin = CORRELATION_MARGIN + correlation
    cautious = min(correlation + margin * math.sqrt((1 - correlation**2) / n), MAX_CORRELATION)
    return score, Noise(power / max(n - parameters, 1), correlation, (1 + cautious) / (1 - cautious))
