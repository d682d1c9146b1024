"""Is b above a, by how much, and how sure is that? Computed on process medians, because noise is between
processes.

Everything is computed on logarithms, so that the result is a ratio. There are two designs. In a `paired`
comparison round i of b ran next to round i of a in random order, so slow changes of the machine affect both and
cancel. In the other, two samples were taken at different times.

Where there are enough rounds for a rank test to reach a useful p, the interval is the exact one of ranks, which
holds for heavy tails, two modes and outliers alike. With fewer rounds it is Student's, which takes logarithms for
Gaussian. (A percentile bootstrap is too narrow with so few values: tests/stats/test_comparison_coverage.py.)
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.stats.intervals import Interval, Values, student_interval
from tare.stats.ranks import rank_sum_interval, rank_sum_p, signed_rank_interval, signed_rank_p, smallest_p

Verdict = Literal["higher", "lower", "same", "undecided"]
Method = Literal["ranks", "student", "none"]

CONFIDENCE = 0.95
# A rank test is used where it can reach this p, so that a change can stand out among some dozens of cases.
RANK_TEST_P = 0.00125
# The signed-rank tests as cap and share of the level. From TWO_TESTS_FROM pairs on there are two: plain ranks, the
# stronger under Gaussian noise, and capped ranks, the stronger where single processes on either side are disturbed
# by more than the change. A value that either rejects is rejected.
ONE_TEST, TWO_TESTS = ((1.0, 1.0),), ((1.0, 0.8), (0.2, 0.2))
TWO_TESTS_FROM = 16
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
    a: Sequence[float], b: Sequence[float], paired: bool = False, required_p: float = RANK_TEST_P
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
    return _compare_pairs(x, y) if paired else _compare_samples(x, y, required_p)


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


def _compare_pairs(x: Values, y: Values) -> Comparison:
    if x.size != y.size:
        raise ValueError("pairs need as many values on either side")
    far = outlying_pairs(x, y)
    kept = (y - x)[~far] if np.count_nonzero(~far) >= 2 else y - x
    counts = (x.size, y.size, True)
    if smallest_p(kept.size, kept.size, paired=True) <= RANK_TEST_P:
        tested = Comparison(*_signed_rank_tests(kept), *counts, "ranks")
    elif kept.size > 1:
        tested = _student(kept.mean(), kept.var(ddof=1) / kept.size, kept.size - 1, counts)
    else:
        tested = _untested(kept.mean(), counts)
    return tested._replace(outliers=x.size - kept.size)


def _signed_rank_tests(kept: Values) -> tuple[Interval, float, float]:
    """The ratio, and the p-values for "higher" and "lower"."""
    tests = ONE_TEST if kept.size < TWO_TESTS_FROM else TWO_TESTS
    bounds = [signed_rank_interval(kept, 1 - share * (1 - CONFIDENCE), cap) for cap, share in tests]
    low, high = max(low for low, _, _ in bounds), min(high for _, _, high in bounds)
    middle = min(max(bounds[0][1], low), high)
    if low > high:
        # The intervals of the two do not overlap: only the plain test remains usable.
        low, middle, high = signed_rank_interval(kept, CONFIDENCE)
    higher, lower = (
        min(1.0, *(signed_rank_p(signed, cap) / share for cap, share in tests)) for signed in (kept, -kept)
    )
    return Interval(low, middle, high).exp(), higher, lower


def _compare_samples(x: Values, y: Values, required_p: float) -> Comparison:
    counts = (x.size, y.size, False)
    if smallest_p(*counts) <= min(required_p, RANK_TEST_P):
        ratio = Interval(*rank_sum_interval(x, y, CONFIDENCE)).exp()
        return Comparison(ratio, rank_sum_p(x, y), rank_sum_p(y, x), *counts, "ranks")
    if min(x.size, y.size) < 2:
        return _untested(y.mean() - x.mean(), counts)
    # The more cautious of Welch's test and the one with a common variance. Two or three values that happen to lie
    # close together make Welch's test far too sure where the other side has many: at p = 0.00002 it errs 20 times
    # as often as stated, 150 times if the noise has two modes. The other test errs where the sides scatter
    # differently.
    shift, variance, freedom = welch(x, y)
    variances = np.array([mean_and_variance(x)[1], mean_and_variance(y)[1]])
    pooled = float(np.average(variances, weights=(x.size - 1, y.size - 1)))
    welchs = _student(shift, variance, freedom, counts)
    common = _student(shift, pooled * (1 / x.size + 1 / y.size), x.size + y.size - 2, counts)
    low, high = min(welchs.ratio.low, common.ratio.low), max(welchs.ratio.high, common.ratio.high)
    return welchs._replace(
        ratio=Interval(low, welchs.ratio.mid, high, sound=welchs.ratio.sound and common.ratio.sound),
        p_higher=max(welchs.p_higher, common.p_higher),
        p_lower=max(welchs.p_lower, common.p_lower),
    )


def welch(x: Values, y: Values) -> tuple[float, float, float]:
    """How far the mean of y lies above that of x, with its variance and its degrees of freedom (Welch, 1947). (Not
    scipy's ttest_ind, which is too slow for a search that asks thousands of times.)"""
    (mean_x, variance_x), (mean_y, variance_y) = mean_and_variance(x), mean_and_variance(y)
    parts = np.array([variance_x / x.size, variance_y / y.size])
    variance = float(parts.sum())
    # As shares of their sum: the squares of tiny variances would underflow.
    shares = parts / variance if variance else np.ones(2)
    freedom = 1 / float((shares**2 / (x.size - 1, y.size - 1)).sum())
    return mean_y - mean_x, variance, freedom


def mean_and_variance(values: Values) -> tuple[float, float]:
    """Exact for equal values. Numpy's mean of six may differ from that of five by rounding, and then a figure that
    is equal in all rounds, as memory often is, would have changed with certainty."""
    if values.min() == values.max():
        return float(values[0]), 0.0
    return float(values.mean()), float(values.var(ddof=1))


def _student(shift: float, variance: float, freedom: float, counts: tuple[int, int, bool]) -> Comparison:
    """Student's test of a shift of logarithms with this variance."""
    from scipy.special import stdtr

    # Without any noise, every shift is certain.
    certain = math.inf * shift if shift else 0.0
    statistic = shift / math.sqrt(variance) if variance else certain
    higher, lower = float(stdtr(freedom, -statistic)), float(stdtr(freedom, statistic))
    ratio = student_interval(shift, variance, freedom, CONFIDENCE).exp()
    return Comparison(ratio, higher, lower, *counts, "student")


def _untested(shift: float, counts: tuple[int, int, bool]) -> Comparison:
    """One process a side says nothing about the noise between processes."""
    ratio = Interval(shift, shift, shift, sound=False).exp()
    return Comparison(ratio, 1.0, 1.0, *counts, "none")


def _without_logarithms(a: Sequence[float], b: Sequence[float], paired: bool) -> Comparison:
    """Zero has no logarithm: if all values are zero they are the same, otherwise there is no ratio."""
    same = max(*a, *b) == min(*a, *b)
    middle = 1.0 if same else math.nan
    return Comparison(Interval(middle, middle, middle, sound=same), 1.0, 1.0, len(a), len(b), paired, "none")
