"""Is b above a, by how much, and how sure is that? Computed on process medians, because noise is between
processes.

Everything is computed on logarithms, so that the result is a ratio. There are two designs. In a `paired`
comparison round i of b ran next to round i of a in random order, so slow changes of the machine affect both and
cancel. In the other, two samples were taken at different times.

Where there are enough rounds for a rank test to reach a useful p, the interval is the exact one of ranks, which
holds for heavy tails, two modes and outliers alike. With fewer rounds it is Student's, which takes logarithms for
Gaussian. (A percentile bootstrap is too narrow with so few values: tests/stats/test_comparison_coverage.py.)
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
# Low, middle and high of a logarithm.
Bounds = tuple[float, float, float]

CONFIDENCE = 0.95
# A rank test is used where it can reach this p, so that a change can stand out among some dozens of cases.
RANK_TEST_P = 0.00125
# From this many pairs on, two tests share the level: plain ranks, the stronger under Gaussian noise, and capped
# ranks, the stronger where single processes on either side are disturbed by more than the change.
TWO_TESTS_FROM = 16
CAP = 0.2
CAPPED_SHARE = 0.2
# A process this many (robust) standard deviations from the median of both sides together is an outlier.
OUTLIER = 4.0
# The spread between these quantiles is 2.07 standard deviations of a Gaussian. Quartiles or the median deviation
# would take the rarer of two modes for outliers.
INNER = (0.15, 0.85)
INNER_WIDTH = 2.0729


class Comparison(NamedTuple):
    """`ratio` is b over a with its interval; `p_higher` and `p_lower` are one-sided p-values against a ratio of
    1."""

    ratio: Interval
    p_higher: float
    p_lower: float
    rounds_a: int
    rounds_b: int
    paired: bool
    method: Method
    # Pairs excluded because a process in them was an outlier, on either side.
    outliers: int = 0

    @property
    def p(self) -> float:
        """Two-sided."""
        return min(1.0, 2 * min(self.p_higher, self.p_lower))


def compare(
    a: Sequence[float],
    b: Sequence[float],
    paired: bool = False,
    confidence: float = CONFIDENCE,
    required_p: float = RANK_TEST_P,
) -> Comparison:
    """Compares the process medians of two versions. Paired values must have equal counts, in order.

    `required_p` is the one-sided p at which a change is significant among all that are tested. Two samples too
    small for a rank test to reach it are compared by Student's test, however many values one of them has.
    """
    if not a or not b:
        raise ValueError("nothing to compare")
    if min(*a, *b) <= 0:
        return _without_logarithms(a, b, paired)
    x, y = np.log(np.asarray(a, dtype=float)), np.log(np.asarray(b, dtype=float))
    return _compare_pairs(x, y, confidence) if paired else _compare_samples(x, y, confidence, required_p)


def judge(comparison: Comparison, margin: float, p: float | None = None, level: float = 1 - CONFIDENCE) -> Verdict:
    """The verdict beside the equivalence margin; `p` is the p-value after correction for many tests.

    "Higher" and "lower" need a p of at most `level` and an interval outside the margin. "Same" needs the interval
    inside the margin: two one-sided tests (Schuirmann, 1987), at half the usual error each.
    """
    low, high = comparison.ratio.low, comparison.ratio.high
    if not comparison.ratio.sound:
        return "undecided"
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return "same"
    significant = (comparison.p if p is None else p) <= level
    if significant and low > 1 + margin:
        return "higher"
    if significant and high < 1 / (1 + margin):
        return "lower"
    return "undecided"


def adjust_p_values(p_values: Sequence[float], tests: int | None = None) -> list[float]:
    """Benjamini and Hochberg's adjusted p-values (1995): rejecting those up to q keeps the false discovery rate at
    q.

    If no change is real, the probability of any rejection is at most q. `tests` also counts tests whose p-value
    was not computed because it could not have mattered; they enter as 1.
    """
    if not p_values:
        return []
    from scipy.stats import false_discovery_control

    padding = [1.0] * max((tests or 0) - len(p_values), 0)
    adjusted: list[float] = false_discovery_control([*p_values, *padding])[: len(p_values)].tolist()
    return adjusted


def outlying_pairs(x: Values, y: Values) -> NDArray[np.bool_]:
    """Pairs with a process far from the median of all processes. The criterion ignores which side a value is on,
    so excluding these pairs keeps a test by random order within pairs exact."""
    ordered = np.sort(np.concatenate([x, y]))
    low, median, high = np.interp((INNER[0], 0.5, INNER[1]), np.linspace(0, 1, ordered.size), ordered)
    spread = float(high - low) / INNER_WIDTH
    if spread == 0:
        # Most values are equal: the spread says nothing about the rest.
        return np.zeros(x.size, dtype=bool)
    far: NDArray[np.bool_] = np.maximum(np.abs(x - median), np.abs(y - median)) > OUTLIER * spread
    return far


def _compare_pairs(x: Values, y: Values, confidence: float) -> Comparison:
    if x.size != y.size:
        raise ValueError("pairs need as many values on either side")
    far = outlying_pairs(x, y)
    kept = (y - x)[~far] if np.count_nonzero(~far) >= 2 else y - x
    rounds, outliers = (x.size, y.size), x.size - kept.size
    if smallest_p(kept.size, kept.size, paired=True) <= RANK_TEST_P:
        test = _rank_test if kept.size < TWO_TESTS_FROM else _two_rank_tests
        bounds, higher, lower = test(kept, confidence)
        return Comparison(_ratio(bounds), higher, lower, *rounds, True, "ranks", outliers)
    variance = kept.var(ddof=1) / kept.size if kept.size > 1 else np.nan
    student = _student(kept.mean(), variance, kept.size - 1, confidence, rounds)
    return student._replace(paired=True, outliers=outliers)


def _rank_test(kept: Values, confidence: float) -> tuple[Bounds, float, float]:
    return walsh_interval(kept, confidence), signed_rank_p(kept), signed_rank_p(-kept)


def _two_rank_tests(kept: Values, confidence: float) -> tuple[Bounds, float, float]:
    """Both tests, each with its share of the level: a value that either rejects is rejected."""
    share = CAPPED_SHARE
    (low, middle, high), *plain = _rank_test(kept, 1 - (1 - share) * (1 - confidence))
    capped_low, capped_high = capped_interval(kept, 1 - share * (1 - confidence), CAP)
    capped = signed_rank_p(kept, CAP), signed_rank_p(-kept, CAP)
    low, high = max(low, capped_low), min(high, capped_high)
    if low > high:
        # The two intervals do not overlap: only the plain test remains usable.
        low, middle, high = walsh_interval(kept, confidence)
    higher, lower = (min(1.0, p / (1 - share), q / share) for p, q in zip(plain, capped, strict=True))
    return (low, min(max(middle, low), high), high), higher, lower


def _compare_samples(x: Values, y: Values, confidence: float, required_p: float) -> Comparison:
    rounds = (x.size, y.size)
    if smallest_p(*rounds, paired=False) <= min(required_p, RANK_TEST_P):
        bounds = shift_interval(x, y, confidence)
        return Comparison(_ratio(bounds), rank_sum_p(x, y), rank_sum_p(y, x), *rounds, False, "ranks")
    if min(rounds) < 2:
        return _student(y.mean() - x.mean(), np.nan, 0, confidence, rounds)
    return _both_students(x, y, confidence)


def _both_students(x: Values, y: Values, confidence: float) -> Comparison:
    """The more cautious of Welch's test and the one with a common variance.

    Two or three values that happen to lie close together make Welch's test far too sure where the other side has
    many: at p = 0.00002 it errs 20 times as often as stated, 150 times if the noise has two modes. The test with a
    common variance errs where the sides scatter differently.
    """
    sizes, freedoms = np.array([x.size, y.size]), np.array([x.size - 1, y.size - 1])
    (mean_x, variance_x), (mean_y, variance_y) = _mean_and_variance(x), _mean_and_variance(y)
    variances = np.array([variance_x, variance_y])
    parts = variances / sizes
    total = float(parts.sum())
    freedom = total**2 / float((parts**2 / freedoms).sum()) if total else 1.0
    common = float((freedoms * variances).sum() / freedoms.sum() * (1 / sizes).sum())
    shift, rounds = mean_y - mean_x, (x.size, y.size)
    welch = _student(shift, total, freedom, confidence, rounds)
    pooled = _student(shift, common, float(freedoms.sum()), confidence, rounds)
    low, high = min(welch.ratio.low, pooled.ratio.low), max(welch.ratio.high, pooled.ratio.high)
    return welch._replace(
        ratio=Interval(low, welch.ratio.mid, high, sound=welch.ratio.sound and pooled.ratio.sound),
        p_higher=max(welch.p_higher, pooled.p_higher),
        p_lower=max(welch.p_lower, pooled.p_lower),
    )


def _mean_and_variance(values: Values) -> tuple[float, float]:
    """Exact for equal values. Numpy's mean of six may differ from that of five by rounding, and then a figure that
    is equal in all rounds, as memory often is, would have changed with certainty."""
    if values.min() == values.max():
        return float(values[0]), 0.0
    return float(values.mean()), float(values.var(ddof=1))


def _student(
    shift: float, variance: float, freedom: float, confidence: float, rounds: tuple[int, int]
) -> Comparison:
    """Student's test of a shift of logarithms with this variance; the ratio's interval on top."""
    from scipy.special import stdtr, stdtrit

    if freedom < 1 or not np.isfinite(variance):
        # One process a side says nothing about the noise between processes.
        ratio = _ratio((shift, shift, shift))._replace(sound=False)
        return Comparison(ratio, 1.0, 1.0, *rounds, False, "none")
    error = float(np.sqrt(variance))
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * error
    if error == 0:
        higher, lower = float(shift <= 0), float(shift >= 0)
    else:
        higher, lower = float(stdtr(freedom, -shift / error)), float(stdtr(freedom, shift / error))
    return Comparison(_ratio((shift - half, shift, shift + half)), higher, lower, *rounds, False, "student")


def _ratio(bounds: Bounds) -> Interval:
    with np.errstate(over="ignore"):
        low, middle, high = (float(np.exp(value)) for value in bounds)
    return Interval(low, middle, high, sound=bool(np.isfinite(high)))


def _without_logarithms(a: Sequence[float], b: Sequence[float], paired: bool) -> Comparison:
    """Zero has no logarithm: if all values are zero they are the same, otherwise there is no ratio."""
    same = max(*a, *b) == min(*a, *b)
    middle = 1.0 if same else float("nan")
    return Comparison(Interval(middle, middle, middle, sound=same), 1.0, 1.0, len(a), len(b), paired, "none")
