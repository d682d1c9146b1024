"""Confidence intervals for timings, which are skewed, drifting, bimodal, and noisy between processes."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


class Interval(NamedTuple):
    """An estimate with its bounds. `sound` is False where the data cannot support the requested confidence."""

    low: float
    mid: float
    high: float
    sound: bool = True

    @property
    def median(self) -> float:
        """The estimate of a time, which is a median everywhere."""
        return self.mid

    @property
    def width(self) -> float:
        """The half width as a share of the estimate; infinite where the interval is not sound."""
        if not self.sound or self.mid <= 0:
            return float("inf")
        return (self.high - self.low) / 2 / self.mid

    def exp(self) -> "Interval":
        """The interval of a ratio from that of its logarithm; not sound where it is unbounded."""
        with np.errstate(over="ignore"):
            low, mid, high = (float(np.exp(value)) for value in self[:3])
        return Interval(low, mid, high, self.sound and math.isfinite(high))

    def ratio_fields(self) -> dict[str, Any]:
        """`ratio`, `low` and `high` for a document: None for what is not finite, and for unsound bounds."""
        known = {"ratio": True, "low": self.sound, "high": self.sound}
        values = zip(known, (self.mid, self.low, self.high), strict=True)
        return {name: value if known[name] and math.isfinite(value) else None for name, value in values}


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """The median of one series with a distribution-free interval from order statistics.

    The ranks come from the binomial distribution (Conover, Practical Nonparametric Statistics, 3.2). Successive
    timings are not independent, so the number of samples is first divided by the integrated autocorrelation time
    of their signs about the median.
    """
    values = np.asarray(samples, dtype=float)
    if values.size == 0:
        raise ValueError("no samples")
    ordered = np.sort(values)
    median = float(np.median(ordered))
    independent = int(values.size / sign_correlation_time(values, median))
    rank = _lower_rank(independent, confidence)
    if rank is None:
        return Interval(float(ordered[0]), median, float(ordered[-1]), sound=False)
    low = rank * values.size // independent
    return Interval(float(ordered[low]), median, float(ordered[values.size - 1 - low]))


def process_interval(medians: Sequence[float], confidence: float = 0.95) -> Interval:
    """The typical step time over fresh processes: the median of their medians, with a Student interval of the
    logarithms. Most noise is between processes, so pooled samples would give too narrow an interval.

    One process says nothing about that noise, and zero has no logarithm: the interval is then not sound.
    """
    median = float(np.median(medians))
    if len(medians) < 2 or min(medians) <= 0:
        return Interval(min(medians), median, max(medians), sound=False)
    # The interval is the mean's. Rounding must not exclude the median from it.
    low, _, high, _ = mean_interval(np.log(medians), confidence).exp()
    return Interval(min(low, median), median, max(high, median))


def mean_interval(values: Values, confidence: float = 0.95) -> Interval:
    """Student's interval of the mean; not sound for a single value."""
    mean = float(values.mean())
    if values.size < 2:
        return Interval(mean, mean, mean, sound=False)
    return student_interval(mean, float(values.var(ddof=1)) / values.size, values.size - 1, confidence)


def student_interval(centre: float, variance: float, freedom: float, confidence: float) -> Interval:
    """Student's interval of an estimate with this variance."""
    from scipy.special import stdtrit

    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * math.sqrt(variance)
    return Interval(centre - half, centre, centre + half)


def sign_correlation_time(values: Values, median: float) -> float:
    """How many successive samples carry as much information about the median as one independent sample.

    This is the integrated autocorrelation time of sign(x - median), summed over pairs of lags while those stay
    positive (Geyer, 1992, initial positive sequence), which needs no tuned window. Measuring about the sample's
    own median biases every correlation downwards; the last factor corrects it to first order (Wolff, Monte Carlo
    errors with less errors, 2004, eq. 49).
    """
    signs = np.sign(values - median)
    n = signs.size
    power = float(signs @ signs)
    if n < 4 or power == 0:
        return 1.0
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(signs, size)
    # Products of signs are whole numbers. Rounding them keeps float errors from deciding whether a pair is
    # positive.
    correlation = np.rint(np.fft.irfft(spectrum * np.conj(spectrum), size)[:n]) / power
    total, window = 0.0, 0
    for k in range(0, n - 1, 2):
        pair = float(correlation[k] + correlation[k + 1])
        if pair <= 0:
            break
        total, window = total + pair, k + 1
    return min(max((2 * total - 1) * (1 + (2 * window + 1) / n), 1.0), float(n))


def _lower_rank(n: int, confidence: float) -> int | None:
    """The largest 0-based rank r with P(fewer than r+1 of n samples under the median) <= alpha/2; None where even
    the extremes of n samples do not bound the median at that confidence."""
    from scipy.special import bdtr

    ranks = np.arange(n // 2 + 1)
    count = int(np.count_nonzero(bdtr(ranks, n, 0.5) <= (1 - confidence) / 2))
    return count - 1 if count else None
