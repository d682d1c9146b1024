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
from tare.stats.ranks import (
    rank_sum_interval,
    rank_sum_p,
    signed_rank_interval,
    signed_rank_p,
    smallest_p,
)

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
# Where the order within each pair is known, a test without the effect of that order has this share of the level:
# on a machine that alternates, that effect is larger than any noise.
ORDER_SHARE = 0.25
# With few pairs the order matters if the variance without its effect is this many times smaller.
ORDER_MATTERS, MIN_OF_EITHER_ORDER = 3.0, 2
# Of the sides of a suite, this share is no noisier than `suite_noise`, for which so many sides are needed.
SUITE_QUANTILE, FEWEST_SIDES = 0.75, 8
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
    # Of few pairs whose order matters: the same without its effect. Which of the two applies was chosen by the
    # data, so this one is for decisions that raise no alarm.
    in_order: "Comparison | None" = None
    # Likewise for few pairs: the p-value for "higher" by ranks, which one disturbed process does not move.
    rank_p: float | None = None
    # False where one side was first in nearly all of few pairs: then a change cannot be told from the order's
    # effect.
    balanced: bool = True

    @property
    def p(self) -> float:
        """Two-sided."""
        return min(1.0, 2 * min(self.p_higher, self.p_lower))


def compare(
    a: Sequence[float],
    b: Sequence[float],
    paired: bool = False,
    required_p: float = RANK_TEST_P,
    b_first: Sequence[bool] = (),
    least_noise: float = 0.0,
) -> Comparison:
    """Compares the process medians of two versions. Paired values must have equal counts, in order. `b_first` says
    of each pair whether b was measured before a, where that is known.

    `required_p` is the one-sided p at which a change is significant among all that are tested. Two samples too
    small for a rank test to reach it are compared by Student's test, however many values one of them has. There,
    the standard deviation of a logarithm is taken to be at least `least_noise`.
    """
    if not a or not b:
        raise ValueError("nothing to compare")
    if min(*a, *b) <= 0:
        return _without_logarithms(a, b, paired)
    x, y = np.log(np.asarray(a, dtype=float)), np.log(np.asarray(b, dtype=float))
    tested = _compare_pairs(x, y, b_first) if paired else _compare_samples(x, y, required_p)
    return _with_least_noise(tested, least_noise) if tested.method == "student" else tested


def suite_noise(sides: Sequence[Sequence[float]]) -> float:
    """The noise between processes on which a comparison of few rounds should count, from all sides of all cases of
    a suite: the standard deviation of a logarithm that a quarter of them exceeds.

    Three rounds that happen to be in the same of two modes show no noise at all. Their neighbours do: if such
    sides are frequent enough to matter, a quarter of all sides is mixed. Zero where there are too few sides to
    say.
    """
    logs = [np.log(side) for side in sides if len(side) > 1 and min(side) > 0]
    if len(logs) < FEWEST_SIDES:
        return 0.0
    from scipy.special import gammaincinv

    # In Gaussian noise a variance of n values is scaled by its chi-squared quantile.
    freedoms = np.array([side.size - 1 for side in logs])
    variances = np.array([side.var(ddof=1) for side in logs]) * freedoms
    return float(np.sqrt(np.quantile(variances / (2 * gammaincinv(freedoms / 2, SUITE_QUANTILE)), SUITE_QUANTILE)))


def judge(comparison: Comparison, margin: float, p: float | None = None, level: float = 1 - CONFIDENCE) -> Verdict:
    """The verdict beside the equivalence margin; `p` is the p-value after correction for many tests.

    "Higher" and "lower" need a p of at most `level` and an interval outside the margin. "Same" needs the interval
    inside the margin: two one-sided tests (Schuirmann, 1987), at half the usual error each. The interval is of one
    figure and of 95 %, whereas `level` may be stricter and p corrected. So an interval outside the margin alone
    decides nothing; `why_undecided` then says what is missing.
    """
    position = beside_margin(comparison.ratio, margin)
    if position in ("higher", "lower") and (comparison.p if p is None else p) > level:
        return "undecided"
    return position


def beside_margin(ratio: Interval, margin: float) -> Verdict:
    """Where an interval lies: wholly beyond the margin, wholly within it, or neither."""
    if not ratio.sound:
        return "undecided"
    if 1 / (1 + margin) <= ratio.low and ratio.high <= 1 + margin:
        return "same"
    if ratio.low > 1 + margin:
        return "higher"
    return "lower" if ratio.high < 1 / (1 + margin) else "undecided"


def why_undecided(comparison: Comparison, margin: float, p: float | None, level: float) -> str:
    """What a comparison lacks for the verdict that its interval or its p-value alone suggests; empty where neither
    suggests one. `p` and `level` are those of the verdict."""
    p = comparison.p if p is None else p
    if beside_margin(comparison.ratio, margin) in ("higher", "lower"):
        return (
            f"the interval is that of this figure alone: among all that were tested, its p is {p:.2g} and must be "
            f"at most {level:.2g}"
        )
    if comparison.ratio.sound and p <= level:
        return f"it changed (p {p:.2g}), but perhaps by less than the margin of {margin:.3g}"
    return ""


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


def _compare_pairs(x: Values, y: Values, b_first: Sequence[bool]) -> Comparison:
    if x.size != y.size or (b_first and len(b_first) != x.size):
        raise ValueError("pairs need as many values on either side")
    far = outlying_pairs(x, y)
    near = ~far if np.count_nonzero(~far) >= 2 else np.ones_like(far)
    orders = np.asarray(b_first, dtype=bool)
    if _has_both_orders(orders) and min(near[orders].mean(), near[~orders].mean()) <= 0.5:
        # Most pairs of one order look like outliers: the order made them so, and the others alone are biased.
        near = np.ones_like(far)
    kept = (y - x)[near]
    counts = (x.size, y.size, True)
    if smallest_p(kept.size, kept.size, paired=True) <= RANK_TEST_P:
        tested = Comparison(*_rank_tests(kept, y - x, orders), *counts, "ranks")
    elif kept.size > 1:
        tested = _student(kept.mean(), kept.var(ddof=1) / kept.size, kept.size - 1, counts)
        tested = tested._replace(rank_p=signed_rank_p(kept))
        if b_first:
            orders = orders[near]
            first, second = np.count_nonzero(orders), np.count_nonzero(~orders)
            balanced = min(first, second) >= MIN_OF_EITHER_ORDER
            tested = tested._replace(in_order=_compare_in_order(kept, orders, counts), balanced=bool(balanced))
    else:
        tested = _untested(kept.mean(), counts)
    return tested._replace(outliers=x.size - kept.size)


def _compare_in_order(
    differences: Values, b_first: NDArray[np.bool_], counts: tuple[int, int, bool]
) -> Comparison | None:
    """Student's test without what the second process of a pair takes longer than the first, by least squares (the
    analysis of a crossover trial: Hills and Armitage, 1979); None where the order does not matter."""
    freedom = differences.size - 2
    if freedom < 1 or not _has_both_orders(b_first):
        return None
    second = np.where(b_first, -1.0, 1.0)
    balance = second.mean()
    effect = ((second * differences).mean() - balance * differences.mean()) / (1 - balance**2)
    adjusted = differences - second * effect
    if ORDER_MATTERS * adjusted.var() > differences.var():
        return None
    return _student(adjusted.mean(), adjusted.var() / freedom / (1 - balance**2), freedom, counts)


def _has_both_orders(b_first: NDArray[np.bool_]) -> bool:
    return bool(b_first.any() and not b_first.all())


def _rank_tests(kept: Values, every: Values, b_first: NDArray[np.bool_]) -> tuple[Interval, float, float]:
    """The ratio, and the p-values for "higher" and "lower". `kept` are the differences without outliers, `every`
    all of them, with their order where that is known."""
    tests = ONE_TEST if kept.size < TWO_TESTS_FROM else TWO_TESTS
    in_order = _has_both_orders(b_first)
    of_level = 1 - ORDER_SHARE if in_order else 1.0
    bounds = [signed_rank_interval(kept, 1 - of_level * share * (1 - CONFIDENCE), cap) for cap, share in tests]
    higher, lower = (
        [signed_rank_p(signed, cap) / (of_level * share) for cap, share in tests] for signed in (kept, -kept)
    )
    if in_order:
        # The second process less the first is the order's effect plus the change, or less it where b was first: a
        # test of two samples (Koch, 1972). Given how many pairs had either order, which ones did is random.
        b_was_first, b_was_second = -every[b_first], every[~b_first]
        doubled = rank_sum_interval(b_was_first, b_was_second, 1 - ORDER_SHARE * (1 - CONFIDENCE))
        bounds.append((doubled[0] / 2, doubled[1] / 2, doubled[2] / 2))
        higher.append(rank_sum_p(b_was_first, b_was_second) / ORDER_SHARE)
        lower.append(rank_sum_p(b_was_second, b_was_first) / ORDER_SHARE)
    low, high = max(low for low, _, _ in bounds), min(high for _, _, high in bounds)
    if low > high:
        # The tests contradict each other: none of them alone says how large the change is.
        low, high = min(low for low, _, _ in bounds), max(high for _, _, high in bounds)
    middle = min(max(bounds[0][1], low), high)
    return Interval(low, middle, high).exp(), min(1.0, *higher), min(1.0, *lower)


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


def _with_least_noise(tested: Comparison, noise: float) -> Comparison:
    """The more cautious of the test itself and one with this noise, which many other sides have shown."""
    variance = noise**2 * (1 / tested.rounds_a + 1 / tested.rounds_b)
    if variance == 0:
        return tested
    known = _student(
        math.log(tested.ratio.mid), variance, math.inf, (tested.rounds_a, tested.rounds_b, tested.paired)
    )
    low, high = min(tested.ratio.low, known.ratio.low), max(tested.ratio.high, known.ratio.high)
    return tested._replace(
        ratio=tested.ratio._replace(low=low, high=high),
        p_higher=max(tested.p_higher, known.p_higher),
        p_lower=max(tested.p_lower, known.p_lower),
    )


def _untested(shift: float, counts: tuple[int, int, bool]) -> Comparison:
    """One process a side says nothing about the noise between processes."""
    ratio = Interval(shift, shift, shift, sound=False).exp()
    return Comparison(ratio, 1.0, 1.0, *counts, "none")


def _without_logarithms(a: Sequence[float], b: Sequence[float], paired: bool) -> Comparison:
    """Zero has no logarithm: if all values are zero they are the same, otherwise there is no ratio."""
    same = max(*a, *b) == min(*a, *b)
    middle = 1.0 if same else math.nan
    return Comparison(Interval(middle, middle, middle, sound=same), 1.0, 1.0, len(a), len(b), paired, "none")
