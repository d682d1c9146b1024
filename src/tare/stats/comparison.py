"""Is b above a, by how much, and how sure is that? On process medians: noise lives between processes.

Everything is done on logarithms, so that the answer is a ratio. Two designs: `paired`, where round i of b ran next
to round i of a in random order (slow changes of the machine meet both, and cancel), and two samples taken apart.

Where there are rounds enough for a rank test to say anything, the interval is an exact one of ranks: it holds for
heavy tails, two modes and outliers alike. With fewer rounds it is Student's, which takes logarithms for Gaussian.
(A percentile bootstrap is too narrow with so few values, or wider: tests/stats/test_comparison_coverage.py.)
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.stats.intervals import Interval
from tare.stats.ranks import (
    Values,
    capped_interval,
    rank_sum_p,
    shift_interval,
    signed_rank_p,
    smallest_p,
    walsh_interval,
)

Verdict = Literal["higher", "lower", "same", "undecided"]
Method = Literal["ranks", "student", "none"]
Flags = NDArray[np.bool_]
# Low, middle and high of a logarithm.
Bounds = tuple[float, float, float]

CONFIDENCE = 0.95
# A rank test is used where it could reach this p: it must be able to stand out among some dozens of cases.
RANKS_FROM = 0.00125
# With so many pairs there are two looks at them, which share the level: ranks, which see most where the noise is
# Gaussian, and capped ranks, which see most where processes are disturbed now and then, on either side, by more
# than the change is. With fewer pairs the second could not say anything.
TWO_LOOKS_FROM = 16
CAP = 0.2
CAPPED_SHARE = 0.2
# A process this many (robust) standard deviations from the middle of all, b's and a's together, is an outlier.
OUTLIER = 4.0
# The spread between these quantiles is 2.07 standard deviations of a Gaussian. Quartiles or the median deviation
# would take the rarer of two modes for outliers.
INNER = (0.15, 0.85)
INNER_WIDTH = 2.0729


class Comparison(NamedTuple):
    """`ratio` is b over a with its interval; `higher` and `lower` are one-sided p-values against a ratio of 1."""

    ratio: Interval
    higher: float
    lower: float
    rounds_a: int
    rounds_b: int
    paired: bool
    method: Method
    # Pairs left out because a process in them was an outlier, whichever side it was on.
    set_aside: int = 0

    @property
    def p(self) -> float:
        """Two-sided."""
        return min(1.0, 2 * min(self.higher, self.lower))


def compare(
    a: Sequence[float],
    b: Sequence[float],
    paired: bool = False,
    confidence: float = CONFIDENCE,
    reach: float = RANKS_FROM,
) -> Comparison:
    """Compares the process medians of two versions. Paired values must have equal counts, in order. `reach` is the
    one-sided p that a change must be able to have to be believed among all that are tested: two samples too small
    for a rank test to get there are compared by Student's, however many one of them has."""
    if not a or not b:
        raise ValueError("nothing to compare")
    if min(*a, *b) <= 0:
        return _nothing(a, b, paired)
    x, y = np.log(np.asarray(a, dtype=float)), np.log(np.asarray(b, dtype=float))
    return _pairs(x, y, confidence) if paired else _samples(x, y, confidence, min(reach, RANKS_FROM))


def judge(found: Comparison, margin: float, p: float | None = None, level: float = 1 - CONFIDENCE) -> Verdict:
    """What the interval says beside the equivalence margin; `p` is the p-value after allowing for many tests.

    A change is called one only if its p is at most `level` and its interval clears the margin. "Same" needs the
    whole interval within the margin: two one-sided tests (Schuirmann, 1987), at half the usual error each.
    """
    low, high = found.ratio.low, found.ratio.high
    if not found.ratio.sound:
        return "undecided"
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return "same"
    believed = (found.p if p is None else p) <= level
    if believed and low > 1 + margin:
        return "higher"
    if believed and high < 1 / (1 + margin):
        return "lower"
    return "undecided"


def outlying_pairs(x: Values, y: Values) -> Flags:
    """Pairs with a process far from the middle of all of them. It does not look at which side a value is on, so
    that leaving them out keeps a test by random order within pairs exact."""
    both = np.concatenate([x, y])
    ordered = np.sort(both)
    low, middle, high = np.interp((INNER[0], 0.5, INNER[1]), np.linspace(0, 1, ordered.size), ordered)
    spread = float(high - low) / INNER_WIDTH
    far: Flags = np.maximum(np.abs(x - middle), np.abs(y - middle)) > OUTLIER * spread
    # With most of the values equal the spread is zero and says nothing of the rest.
    return far if spread > 0 else np.zeros(x.size, dtype=bool)


def _pairs(x: Values, y: Values, confidence: float) -> Comparison:
    if x.size != y.size:
        raise ValueError("pairs need as many values on either side")
    far = outlying_pairs(x, y)
    kept = (y - x)[~far] if np.count_nonzero(~far) >= 2 else y - x
    aside = x.size - kept.size
    if smallest_p(kept.size, kept.size, paired=True) <= RANKS_FROM:
        look = _ranks if kept.size < TWO_LOOKS_FROM else _two_looks
        bounds, higher, lower = look(kept, confidence)
        return Comparison(_ratio(bounds), higher, lower, x.size, y.size, True, "ranks", aside)
    return _student(kept.mean(), kept.var(ddof=1) / kept.size if kept.size > 1 else np.nan, kept.size - 1,
                    confidence, (x.size, y.size), True, aside)  # fmt: skip


def _ranks(kept: Values, confidence: float) -> tuple[Bounds, float, float]:
    return walsh_interval(kept, confidence), signed_rank_p(kept), signed_rank_p(-kept)


def _two_looks(kept: Values, confidence: float) -> tuple[Bounds, float, float]:
    """Both looks, each with its share of the level: what either rejects is rejected."""
    share = CAPPED_SHARE
    (low, middle, high), *ps = _ranks(kept, 1 - (1 - share) * (1 - confidence))
    lowest, highest = capped_interval(kept, 1 - share * (1 - confidence), CAP)
    capped = signed_rank_p(kept, CAP), signed_rank_p(-kept, CAP)
    low, high = max(low, lowest), min(high, highest)
    if low > high:
        # Each rejects what the other holds true: then nothing is known better than by ranks alone.
        low, middle, high = walsh_interval(kept, confidence)
    higher, lower = (min(1.0, p / (1 - share), q / share) for p, q in zip(ps, capped, strict=True))
    return (low, min(max(middle, low), high), high), higher, lower


def _samples(x: Values, y: Values, confidence: float, reach: float) -> Comparison:
    if smallest_p(x.size, y.size, paired=False) <= reach:
        bounds = shift_interval(x, y, confidence)
        return Comparison(_ratio(bounds), rank_sum_p(x, y), rank_sum_p(y, x), x.size, y.size, False, "ranks")
    if min(x.size, y.size) < 2:
        return _student(y.mean() - x.mean(), np.nan, 0, confidence, (x.size, y.size), False)
    return _both_students(x, y, confidence)


def _both_students(x: Values, y: Values, confidence: float) -> Comparison:
    """The more cautious of Welch's test and the one with a common variance. Two or three values that happen to lie
    close together make Welch's far too sure where the other side has many: at p = 0.00002 it errs 20 times as
    often as it says, 150 times if the noise has two modes. The other errs where the sides scatter differently."""
    sizes, freedoms = np.array([x.size, y.size]), np.array([x.size - 1, y.size - 1])
    (before, x_variance), (now, y_variance) = _mean_and_variance(x), _mean_and_variance(y)
    variances = np.array([x_variance, y_variance])
    parts = variances / sizes
    total = float(parts.sum())
    freedom = total**2 / float((parts**2 / freedoms).sum()) if total else 1.0
    common = float((freedoms * variances).sum() / freedoms.sum() * (1 / sizes).sum())
    shift, rounds = now - before, (x.size, y.size)
    one = _student(shift, total, freedom, confidence, rounds, False)
    other = _student(shift, common, float(freedoms.sum()), confidence, rounds, False)
    low, high = min(one.ratio.low, other.ratio.low), max(one.ratio.high, other.ratio.high)
    ratio = Interval(low, one.ratio.mid, high, sound=one.ratio.sound and other.ratio.sound)
    return one._replace(ratio=ratio, higher=max(one.higher, other.higher), lower=max(one.lower, other.lower))


def _mean_and_variance(values: Values) -> tuple[float, float]:
    """Of equal values they are known exactly. Numpy's mean of six may be another than that of five, by a rounding:
    a figure that is the same in all rounds, as memory often is, would have changed, and for certain."""
    if values.min() == values.max():
        return float(values[0]), 0.0
    return float(values.mean()), float(values.var(ddof=1))


def _student(
    shift: float,
    variance: float,
    freedom: float,
    confidence: float,
    rounds: tuple[int, int],
    paired: bool,
    aside: int = 0,
) -> Comparison:
    from scipy.special import stdtr, stdtrit

    if freedom < 1 or not np.isfinite(variance):
        # One process a side knows nothing of the noise between processes.
        ratio = _ratio((shift, shift, shift))._replace(sound=False)
        return Comparison(ratio, 1.0, 1.0, *rounds, paired, "none", aside)
    error = float(np.sqrt(variance))
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * error
    if error == 0:
        higher = lower = 1.0 if shift == 0 else 0.0
        if shift:
            higher, lower = (0.0, 1.0) if shift > 0 else (1.0, 0.0)
    else:
        higher, lower = float(stdtr(freedom, -shift / error)), float(stdtr(freedom, shift / error))
    return Comparison(
        _ratio((shift - half, shift, shift + half)), higher, lower, *rounds, paired, "student", aside
    )


def _ratio(bounds: Bounds) -> Interval:
    with np.errstate(over="ignore"):
        low, middle, high = (float(np.exp(value)) for value in bounds)
    return Interval(low, middle, high, sound=bool(np.isfinite(high)))


def _nothing(a: Sequence[float], b: Sequence[float], paired: bool) -> Comparison:
    """A value of zero has no logarithm: where all are zero they are the same, anything else has no ratio."""
    same = max(*a, *b) == min(*a, *b)
    middle = 1.0 if same else float("nan")
    return Comparison(Interval(middle, middle, middle, sound=same), 1.0, 1.0, len(a), len(b), paired, "none")
