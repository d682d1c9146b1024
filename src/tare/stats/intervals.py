"""Confidence intervals that stay honest on timings: skewed, drifting, bimodal, and noisy between processes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Interval(NamedTuple):
    """An estimate with its bounds. `sound` is False where the data cannot support the confidence asked for."""

    low: float
    mid: float
    high: float
    sound: bool = True

    @property
    def width(self) -> float:
        """The half width as a share of the estimate; infinite where the interval is not sound."""
        if not self.sound or self.mid <= 0:
            return float("inf")
        return (self.high - self.low) / 2 / self.mid


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """The median of one series with a distribution-free interval from order statistics.

    The ranks come from the binomial distribution (Conover, Practical Nonparametric Statistics, 3.2), with the
    number of samples divided by the integrated autocorrelation time of their signs about the median, because
    successive timings are not independent: a drifting series holds less information than its length says.
    """
    values = np.asarray(samples, dtype=float)
    if values.size == 0:
        raise ValueError("no samples")
    ordered = np.sort(values)
    middle = float(np.median(ordered))
    independent = int(values.size / sign_correlation_time(values, middle))
    rank = _lower_rank(independent, confidence)
    if rank is None:
        return Interval(float(ordered[0]), middle, float(ordered[-1]), sound=False)
    low = rank * values.size // independent
    return Interval(float(ordered[low]), middle, float(ordered[values.size - 1 - low]))


def process_interval(medians: Sequence[float], confidence: float = 0.95) -> Interval:
    """The typical step time over fresh processes: their middle, with a Student interval of the logarithms.

    Noise lives between processes, so the rounds' medians are the observations, never the pooled samples.
    One process says nothing of that noise, and a time of zero has no logarithm: the interval is then not sound.
    """
    from scipy.special import stdtrit

    middle = float(np.median(medians))
    if len(medians) < 2 or min(medians) <= 0:
        return Interval(min(medians), middle, max(medians), sound=False)
    logs = np.log(np.asarray(medians, dtype=float))
    centre = float(logs.mean())
    half = float(stdtrit(logs.size - 1, 0.5 + confidence / 2) * logs.std(ddof=1) / np.sqrt(logs.size))
    # The interval is the mean's; with two rounds or more it always holds their median as well.
    with np.errstate(over="ignore"):
        low, high = np.exp(centre - half), np.exp(centre + half)
    return Interval(min(float(low), middle), middle, max(float(high), middle))


def sign_correlation_time(values: NDArray[np.float64], middle: float) -> float:
    """How many successive samples say as much about the median as one independent sample (1 if they all do).

    The integrated autocorrelation time of sign(x - median), summed over pairs of lags while those stay
    positive (Geyer, 1992, initial positive sequence), which needs no tuned window. Measuring about the sample's
    own median makes every correlation a little too small; the last factor makes up for it to first order
    (Wolff, Monte Carlo errors with less errors, 2004, eq. 49).
    """
    signs = np.sign(values - middle)
    n = signs.size
    power = float(signs @ signs)
    if n < 4 or power == 0:
        return 1.0
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(signs, size)
    # Products of signs are whole numbers: rounded, so that no rounding error decides whether a pair is positive.
    correlation = np.rint(np.fft.irfft(spectrum * np.conj(spectrum), size)[:n]) / power
    total, window = 0.0, 0
    for k in range(0, n - 1, 2):
        pair = float(correlation[k] + correlation[k + 1])
        if pair <= 0:
            break
        total, window = total + pair, k + 1
    return min(max((2 * total - 1) * (1 + (2 * window + 1) / n), 1.0), float(n))


def _lower_rank(n: int, confidence: float) -> int | None:
    """The largest 0-based rank r with P(fewer than r+1 of n samples under the median) <= alpha/2.

    None where even the extremes of n samples do not bound the median at that confidence.
    """
    from scipy.special import bdtr

    ranks = np.arange(n // 2 + 1)
    fitting = int(np.count_nonzero(bdtr(ranks, n, 0.5) <= (1 - confidence) / 2))
    return fitting - 1 if fitting else None
