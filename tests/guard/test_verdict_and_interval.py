"""A verdict never contradicts the interval beside it, whatever the samples; where it lags behind, the text says
why.

(Seen once: "+64.7 % (+51.7 .. +79.0) undecided", and nothing else.)
"""

import math
from collections.abc import Sequence

import pytest
from builders import make_case
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.guard.changes import MetricChange
from tare.guard.compare import MetricTest, judge_tests, metric_change
from tare.guard.metrics import get_metric
from tare.guard.thresholds import MetricLimits
from tare.report.changes import remark
from tare.stats.comparison import adjust_p_values, compare
from tare.stats.two_stage import LEVEL, confirm

GROSS = get_metric("gross")
LIMITS = MetricLimits(0.07, 0.02)
NOISE = st.floats(-0.5, 0.5)


def make_test(number: int, a: Sequence[float], b: Sequence[float], paired: bool) -> MetricTest:
    comparison = compare(a, b, paired)
    return MetricTest(make_case(batch=number + 1), GROSS, LIMITS, list(a), list(b), comparison)


@st.composite
def suites(draw: st.DrawFn) -> list[MetricTest]:
    """Some cases of few or many rounds, with any noise and any shift; in one suite all are paired or none."""
    paired, tests = draw(st.booleans()), []
    for number in range(draw(st.integers(1, 6))):
        rounds = draw(st.integers(2, 14))
        shift, scale = draw(st.floats(-1, 1)), draw(st.sampled_from([0.0, 0.01, 0.1, 1.0]))
        sides = [draw(st.lists(NOISE, min_size=rounds, max_size=rounds)) for _ in range(2)]
        a, b = (
            [math.exp(scale * value + s) for value in side] for side, s in zip(sides, (0.0, shift), strict=True)
        )
        tests.append(make_test(number, a, b, paired))
    return tests


def judged(tests: list[MetricTest], level: float) -> list[MetricChange]:
    """As a comparison, or the first stage of a check, judges."""
    changes = judge_tests({test.case: [test] for test in tests}, level)
    return [of_case["gross"] for of_case in changes.values()]


def confirmed(tests: list[MetricTest]) -> list[MetricChange]:
    """As the second stage of a check judges."""
    comparisons = [test.comparison for test in tests if test.comparison]
    verdicts = confirm(comparisons, [LIMITS.margin] * len(tests))
    p_values = adjust_p_values([comparison.p_higher for comparison in comparisons])
    return [
        metric_change(test, p, LEVEL, verdict, "confirmed" if verdict == "higher" else "not confirmed")
        for test, verdict, p in zip(tests, verdicts, p_values, strict=True)
    ]


def check_consistency(change: MetricChange) -> None:
    if change.low is None or change.high is None:
        assert change.verdict == "undecided"
        return
    above, below = change.low > 1 + LIMITS.margin, change.high < 1 / (1 + LIMITS.margin)
    assert change.verdict != "slower" or above
    assert change.verdict != "faster" or below
    assert change.verdict != "same" or (not above and not below)
    if change.verdict == "undecided" and (above or below):
        assert "its p is" in change.undecided_because
        assert "must be at most" in remark(change)


@settings(max_examples=150, deadline=None)
@given(suites())
def test_no_verdict_contradicts_its_interval(tests: list[MetricTest]) -> None:
    for change in (*judged(tests, 0.05), *judged(tests, LEVEL), *confirmed(tests)):
        check_consistency(change)


def test_an_interval_beyond_the_threshold_that_decides_nothing_says_why_and_what_would() -> None:
    """Four pairs with a clear shift: the interval of this figure alone excludes no change, but a p of 0.002 is not
    enough for a check that promises 0.5 % over ten figures."""
    a = [1.0, 1.02, 0.98, 1.01]
    shifted = make_test(0, a, [1.64 * value for value in (0.95, 1.1, 0.9, 1.05)], paired=True)
    others = [
        make_test(n, a, [value * (1 + 0.001 * (-1) ** n) for value in a[::-1]], paired=True) for n in range(1, 10)
    ]
    change = judged([shifted, *others], LEVEL)[0]
    assert change.verdict == "undecided"
    assert change.low is not None
    assert change.low > 1.07
    assert "among all that were tested, its p is" in remark(change)
    assert "more round" in remark(change)


def test_a_significant_change_that_may_be_tiny_says_so() -> None:
    a = [1.0 + 0.001 * n for n in range(12)]
    change = judged(
        [make_test(0, a, [1.02 * value * (1 + 0.001 * (-1) ** n) for n, value in enumerate(a)], True)], 0.05
    )[0]
    assert change.verdict == "undecided"
    assert "perhaps by less than the margin of 0.02" in remark(change)


@pytest.mark.parametrize("shift", [1.5, 1 / 1.5])
def test_a_clear_change_needs_no_excuse(shift: float) -> None:
    a = [1.0 + 0.01 * n for n in range(12)]
    (change,) = judged([make_test(0, a, [shift * value for value in a], paired=True)], 0.05)
    assert change.verdict == ("slower" if shift > 1 else "faster")
    assert change.undecided_because == ""
