"""The noise of a series that may hold steps, drift and outliers."""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tare.stats.segmentation import Cuts, Sums

Numbers = NDArray[np.float64]

# The scale of a normal distribution from a median absolute deviation.
NORMAL = 1.4826
# An outlier counts for no more than this many scales beside its neighbours.
CLIP = 3.0
# A step is one great difference among many small ones, and must not count as noise.
CLIP_DIFFERENCE = 4.5
# What a cut may cost at most and at least in the search for the noise, in penalties for independent points.
FACTORS = (1, 3, 9, 27, 81, 1e9)
# ... and in the choice among them: in doubt it is correlation, for which nobody is called at night.
CUT_COST = 1.25
# No measurement is exacter than this; counts are, and then any difference is a step.
TINY = 1e-16
MOST_CORRELATION = 0.95
# The correlation of a short series is known badly, and too low a one raises alarms: this share of its standard
# error is added, and the more the higher it is. Chosen by simulation: docs/history.md has the rates that it gives.
CORRELATION_MARGIN = 0.4


class Noise(NamedTuple):
    """`variance` of one point, `correlation` of neighbours, `inflation`: how many times as uncertain a mean is as
    the mean of independent points."""

    variance: float
    correlation: float
    inflation: float

    @property
    def long_run(self) -> float:
        return self.variance * self.inflation


def clipped(values: Numbers, half: int) -> Numbers:
    """Values drawn in to their running median (Hampel's filter, which clips instead of replacing): a plateau of
    more than `half` points stays what it is."""
    half = min(half, (values.size - 1) // 2)
    if half < 1:
        return values
    padded = np.pad(values, half, mode="reflect")
    middle = np.median(sliding_window_view(padded, 2 * half + 1), axis=1)
    away = values - middle
    scale = NORMAL * float(np.median(np.abs(away)))
    if scale == 0:
        return values
    return middle + np.clip(away, -CLIP * scale, CLIP * scale)


def series_noise(values: Numbers, sums: Sums, possible: Cuts, penalty: float, slope_penalty: float) -> Noise:
    """Variance and correlation of autoregressive noise in a series that may hold steps and drift.

    A step looks like correlation and correlation looks like steps, so both are fitted: cuts of the series from
    many to none, and for each the likelihood of what is left as an AR(1) process (the model of Chakar et al.,
    A robust approach for estimating change-points in the mean of an AR(1) process, 2017). The best of them, at
    `penalty` a cut, tells the noise. The mean of correlated points is (1 + r) / (1 - r) times as uncertain as that
    of independent ones.
    """
    white = _mean_square(values) / 2
    if white <= 0:
        return Noise(0.0, 0.0, 1.0)
    best, chosen = math.inf, None
    tried: set[tuple[int, ...]] = set()
    for factor in FACTORS:
        scale = factor * white
        cuts = possible.best(scale * penalty, scale * slope_penalty)
        if tuple(cuts) in tried:
            continue
        tried.add(tuple(cuts))
        edges = [0, *cuts, values.size]
        pieces = [sums.piece(a, b, scale * slope_penalty) for a, b in pairwise(edges)]
        rest = values - np.concatenate([np.linspace(p.first, p.last, p.size) for p in pieces])
        parameters = sum(2 if p.first != p.last else 1 for p in pieces)
        score, noise = _autoregression(rest, parameters)
        score += len(cuts) * CUT_COST * penalty
        if score < best:
            best, chosen = score, noise
    return chosen or Noise(white, 0.0, 1.0)


def _autoregression(rest: Numbers, parameters: int) -> tuple[float, Noise]:
    """Twice the negative log likelihood (up to a constant) of residuals as an AR(1) process, and its noise."""
    n = rest.size
    power = float(rest @ rest)
    if power <= n * TINY:
        return n * math.log(TINY), Noise(TINY, 0.0, 1.0)
    raw = float(rest[1:] @ rest[:-1]) / power
    # Residuals about fitted levels are too little correlated, by about this (Kendall, 1954, for one level).
    correlation = min(max(raw + (1 + 3 * max(raw, 0.0)) * parameters / n, 0.0), MOST_CORRELATION)
    innovations = rest[1:] - correlation * rest[:-1]
    score = n * math.log(max(float(innovations @ innovations) / (n - 1), TINY))
    margin = CORRELATION_MARGIN + correlation
    careful = correlation + margin * math.sqrt((1 - correlation**2) / n)
    careful = min(careful, MOST_CORRELATION)
    return score, Noise(power / max(n - parameters, 1), correlation, (1 + careful) / (1 - careful))


def _mean_square(values: Numbers) -> float:
    """The mean square of differences between neighbours; a few great ones are steps, and count for little."""
    differences = np.diff(values)
    scale = NORMAL * float(np.median(np.abs(differences)))
    if scale > 0:
        differences = np.clip(differences, -CLIP_DIFFERENCE * scale, CLIP_DIFFERENCE * scale)
    return float(np.mean(differences**2))
