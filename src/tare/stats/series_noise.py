"""The noise of a series that may hold steps, drift and outliers: clipped, then measured on differences."""

import math
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

# The scale of a normal distribution from a median absolute deviation.
NORMAL = 1.4826
# An outlier counts for no more than this many scales beside its neighbours.
CLIP = 3.0
# A step is one great difference among many small ones, and must not count as noise.
CLIP_DIFFERENCE = 4.5
LAGS = np.array([1, 2, 3, 4])
MOST_CORRELATION = 0.95
# The correlation of a short series is known badly, and too low a one raises alarms: this share of its standard
# error is added. Chosen by simulation (tests/stats/test_changepoint_rates.py holds the rates it gives).
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


def series_noise(values: Numbers) -> Noise:
    """Variance and correlation of autoregressive noise under steps and drift.

    For AR(1) noise the mean squared difference at lag h is 2 v (1 - r^h): its growth over the first lags gives r,
    whatever the levels are (the idea of Chakar et al., A robust approach for estimating change-points in the mean
    of an AR(1) process, 2017, section 2.1, with four lags for two). The mean of correlated points is
    (1 + r) / (1 - r) times as uncertain as that of independent ones.
    """
    if values.size < 3 * LAGS.size:
        return Noise(_mean_square(values, 1) / 2, 0.0, 1.0)
    growth = np.array([_mean_square(values, int(lag)) for lag in LAGS])
    if growth.min() <= 0 or float(np.median(np.abs(np.diff(values)))) == 0:
        # Most neighbours are equal, as in a series of counts: differences are steps, and tell of no correlation.
        return Noise(growth[0] / 2, 0.0, 1.0)
    candidates = np.linspace(0, MOST_CORRELATION, 96)[:, None]
    shape = 1 - candidates**LAGS
    fits = np.log(growth / shape)
    best = int(np.argmin(fits.var(axis=1)))
    correlation = float(candidates[best, 0])
    variance = math.exp(float(fits[best].mean())) / 2
    careful = correlation + CORRELATION_MARGIN * math.sqrt((1 - correlation**2) / values.size)
    careful = min(careful, MOST_CORRELATION)
    return Noise(variance, correlation, (1 + careful) / (1 - careful))


def _mean_square(values: Numbers, lag: int) -> float:
    differences = values[lag:] - values[:-lag]
    scale = NORMAL * float(np.median(np.abs(differences))) if differences.size else 0.0
    if scale > 0:
        differences = np.clip(differences, -CLIP_DIFFERENCE * scale, CLIP_DIFFERENCE * scale)
    return float(np.mean(differences**2)) if differences.size else 0.0
