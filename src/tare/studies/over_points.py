"""The rules about points: ratios, values, mean percentage errors, limits that every point keeps, trends.

The rounds of all points are combined round by round, so that a figure has one value for each round, and its
interval is that between processes (tare.stats.comparison). With one round there is no such interval, and nothing
is decided. Two kinds of figures are exceptions: counts, which are equal in every round, and means over a sample of
workloads, whose scatter includes the noise of their processes.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, geometric_mean, median
from typing import Any

import msgspec
import numpy as np

from tare.stats.comparison import (
    CONFIDENCE,
    Comparison,
    Verdict,
    adjust_p_values,
    beside_margin,
    compare,
    judge,
)
from tare.stats.intervals import Interval, mean_interval
from tare.studies.outcome import (
    FEWEST_SAMPLE,
    OurFigure,
    PartVerdict,
    beside_region,
    describe,
    few_for_a_sample,
    make_part,
    one_round,
    too_wide,
)
from tare.studies.points import Points, StudyPoint, axis_value, brief_case, place_of
from tare.studies.rules import (
    EachRule,
    MixedRule,
    MpeRule,
    OverPoints,
    RatioRule,
    TrendRule,
    ValueRule,
)

LEVEL = 1 - CONFIDENCE
OPPOSITE: dict[Verdict, Verdict] = {"higher": "lower", "lower": "higher"}


def over_rounds(values: Sequence[float], exact: bool, beside: float = 1.0) -> Comparison:
    """One value a round, compared with a number. Counts are what they are: they need no statistics."""
    if not exact:
        return compare([beside] * len(values), values, paired=True)
    low, middle, high = (of(values) / beside for of in (min, median, max))
    p_higher, p_lower = (0.0 if low > 1 else 1.0), (0.0 if high < 1 else 1.0)
    ratio, rounds = Interval(low, middle, high), len(values)
    return Comparison(ratio, p_higher, p_lower, rounds, rounds, paired=True, method="none")


def by_rounds(points: Sequence[StudyPoint]) -> list[list[float]]:
    """For each round that all points have, the values of the points."""
    rounds = min(len(point.values) for point in points)
    return [[point.values[i] for point in points] for i in range(rounds)]


def mean_ratio(found: Points) -> Interval:
    """The geometric mean over points, with its interval between rounds."""
    return over_rounds([geometric_mean(values) for values in by_rounds(found.points)], found.metric.exact).ratio


def sample_mean(points: Sequence[StudyPoint]) -> Interval:
    """The geometric mean over points that stand for others, with Student's interval of their logarithms."""
    mean = mean_interval(np.log([geometric_mean(point.values) for point in points]), CONFIDENCE).exp()
    return mean._replace(sound=mean.sound and len(points) >= FEWEST_SAMPLE)


def judge_ratio(rule: OverPoints, found: Points) -> PartVerdict:
    if isinstance(rule, RatioRule) and rule.points == "sample":
        interval = sample_mean(found.points)
        few = few_for_a_sample(len(found.points), "points")
        return beside_region(rule, interval, make_figure(rule, found, interval), few)
    interval = mean_ratio(found)
    return beside_region(rule, interval, make_figure(rule, found, interval))


def judge_mpe(rule: OverPoints, found: Points) -> PartVerdict:
    def error(ratio: float) -> float:
        return 1 - 1 / ratio

    rounds = np.array([fmean(map(error, values)) for values in by_rounds(found.points)])
    interval = mean_interval(rounds, CONFIDENCE)
    return beside_region(rule, interval, make_figure(rule, found, interval, error, unit=""))


def judge_each(rule: OverPoints, found: Points) -> PartVerdict:
    """Every point must be inside. One is outside if its p-value, corrected for all points and limits, says so."""
    sides: tuple[Verdict, Verdict] = ("lower", "higher")
    limits = [(bound, side) for bound, side in zip(rule.region, sides, strict=True) if math.isfinite(bound)]
    tests = [
        (point, bound, side, over_rounds(point.values, found.metric.exact, bound))
        for point in found.points
        for bound, side in limits
    ]
    adjusted = adjust_p_values([tested.p for *_, tested in tests])
    outside = {
        point.case.key
        for (point, _, side, tested), p in zip(tests, adjusted, strict=True)
        if judge(tested, 0.0, p, LEVEL) == side
    }
    # The point that is the farthest outside, or the nearest to a limit.
    decisive = [test for test in tests if test[0].case.key in outside] or tests
    worst, bound, _, nearest = max(decisive, key=lambda test: _excess(test[3].ratio.mid, test[2]))
    low, middle, high, sound = nearest.ratio
    figure = make_figure(rule, found, Interval(low * bound, middle * bound, high * bound, sound))
    if outside:
        more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
        return make_part(rule, "contradicted", f"not at {brief_case(worst.case)}{more}", figure=figure)
    if all(_is_within(tested.ratio, side) for *_, side, tested in tests):
        return make_part(rule, "holds", figure=figure)
    if not all(tested.ratio.sound for *_, tested in tests):
        return make_part(rule, "missing", one_round(figure), figure=figure)
    return make_part(rule, "undecided", f"{too_wide(figure)} at {brief_case(worst.case)}", figure=figure)


def _excess(ratio: float, side: Verdict) -> float:
    return 1 / ratio if side == "lower" else ratio


def _is_within(ratio: Interval, side: Verdict) -> bool:
    return ratio.sound and (ratio.low >= 1 if side == "lower" else ratio.high <= 1)


def judge_mixed(rule: OverPoints, found: Points) -> PartVerdict:
    assert isinstance(rule, MixedRule)
    tests = [over_rounds(point.values, found.metric.exact) for point in found.points]
    adjusted = adjust_p_values([tested.p for tested in tests])
    sides = [judge(tested, rule.margin, p, LEVEL) for tested, p in zip(tests, adjusted, strict=True)]
    figure = make_figure(rule, found, mean_ratio(found))
    if {"higher", "lower"} <= set(sides):
        counts = f"lower at {sides.count('lower')} points, higher at {sides.count('higher')}"
        return make_part(rule, "holds", counts, figure=figure)
    if not all(tested.ratio.sound for tested in tests):
        return make_part(rule, "missing", one_round(figure), figure=figure)
    if min(tested.ratio.low for tested in tests) >= 1 / (1 + rule.margin):
        return make_part(rule, "contradicted", "at no point is it lower", figure=figure)
    if max(tested.ratio.high for tested in tests) <= 1 + rule.margin:
        return make_part(rule, "contradicted", "at no point is it higher", figure=figure)
    return make_part(rule, "undecided", too_wide(figure), figure=figure)


def judge_trend(rule: OverPoints, found: Points) -> PartVerdict:
    """The figure is the value at the last place of the axis over that at the first."""
    assert isinstance(rule, TrendRule)
    without = (*rule.differ, rule.axis) if rule.is_ratio else (rule.axis,)
    groups: dict[Any, dict[int, StudyPoint]] = {}
    for point in found.points:
        if (at := axis_value(point.case, rule)) is not None:
            groups.setdefault(place_of(point.case, without), {})[at] = point
    series = [group for group in groups.values() if len(group) > 1]
    # Only where every series has a point: otherwise the mean would change with the series that are in it.
    axis = sorted(set.intersection(*(set(group) for group in series))) if series else []
    if len(axis) < 2:
        return make_part(rule, "missing", f"there are not two values of {rule.axis} to compare")
    kept = found._replace(points=[group[at] for group in series for at in axis])

    def change(first: int, last: int) -> Comparison:
        rounds = range(kept.rounds)
        factors = [geometric_mean(each[last].values[i] / each[first].values[i] for each in series) for i in rounds]
        return over_rounds(factors, found.metric.exact)

    overall, steps = change(axis[0], axis[-1]), [change(a, b) for a, b in pairwise(axis)]
    ends = [each[axis[-1]].values[0] / each[axis[0]].values[0] for each in series]
    figure = make_figure(rule, kept, overall.ratio, unit="x")
    figure = msgspec.structs.replace(figure, least=min(ends), most=max(ends))
    if not overall.ratio.sound:
        return make_part(rule, "missing", one_round(figure), figure=figure)
    wanted: Verdict = "higher" if rule.direction == "rises" else "lower"
    adjusted = adjust_p_values([step.p for step in steps])
    for (a, b), step, p in zip(pairwise(axis), steps, adjusted, strict=True):
        if judge(step, rule.margin, p, LEVEL) == OPPOSITE[wanted]:
            return make_part(rule, "contradicted", f"not from {rule.axis} {a} to {b}", figure=figure)
    position = beside_margin(overall.ratio, rule.margin)
    if position == wanted:
        return make_part(rule, "holds", figure=figure)
    if position != "undecided":
        ends_text = f"not from {rule.axis} {axis[0]} to {axis[-1]}"
        return make_part(rule, "contradicted", ends_text, figure=figure)
    return make_part(rule, "undecided", too_wide(figure), figure=figure)


JUDGES: dict[type[OverPoints], Callable[[OverPoints, Points], PartVerdict]] = {
    RatioRule: judge_ratio,
    ValueRule: judge_ratio,
    MpeRule: judge_mpe,
    EachRule: judge_each,
    MixedRule: judge_mixed,
    TrendRule: judge_trend,
}


def make_figure(
    rule: OverPoints,
    found: Points,
    interval: Interval,
    show: Callable[[float], float] = lambda value: value,
    unit: str | None = None,
) -> OurFigure:
    """`show` turns a ratio into the figure of a single point."""
    singles = [show(geometric_mean(point.values)) for point in found.points]
    return OurFigure(
        value=interval.mid,
        low=interval.low if interval.sound else None,
        high=interval.high if interval.sound else None,
        least=min(singles),
        most=max(singles),
        unit=unit if unit is not None else "x" if rule.is_ratio else found.metric.unit,
        points=len(found.points),
        planned=found.planned,
        rounds=found.rounds,
        parity=found.parity,
        machine=", ".join(describe(each, found.points[0].records[0].case) for each in found.environments),
    )
