"""Comparing two sets of records, case by case and metric by metric."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any, NamedTuple

from tare.cases.case import Case
from tare.guard.changes import CaseChange, MetricChange, Report, Stage, call_counts, compare_calls
from tare.guard.comparable import (
    order_within_pairs,
    refuse_differences,
    split_differences,
    were_interleaved,
)
from tare.guard.leak import leaks
from tare.guard.metrics import Metric, require_common, uncompared_metrics, values
from tare.guard.thresholds import MetricLimits, Thresholds
from tare.records.record import Failure, Record
from tare.stats.comparison import (
    Comparison,
    Verdict,
    adjust_p_values,
    compare,
    judge,
    suite_noise,
    why_undecided,
)
from tare.stats.power import rounds_to_decide
from tare.store.selection import Selection

RecordPair = tuple[Record, Record]

# The false discovery rate of a comparison that is not confirmed by another.
LEVEL = 0.05
# With this many cases, a change that they all share is more likely the machine's than theirs.
SHARED_FROM = 8
WRONG_PARITY = ("different", "nan")


class Rules(NamedTuple):
    thresholds: Thresholds
    metrics: Sequence[Metric]
    # Rounds of a check's confirmation; None chooses by the noise, 0 skips the confirmation.
    confirm_rounds: int | None = None


class Matched(NamedTuple):
    """Records of the same family of cases, before and now, and the keys of the records that are in no pair."""

    pairs: list[RecordPair]
    only_a: list[str]
    only_b: list[str]


class MetricTest(NamedTuple):
    """One metric of one case before the verdict. `comparison` is None for an exact metric."""

    case: Case
    metric: Metric
    limits: MetricLimits
    a: list[float]
    b: list[float]
    comparison: Comparison | None


# The tests of each case, and their results by the metric's name.
Tests = dict[Case, list[MetricTest]]
Changes = dict[Case, dict[str, MetricChange]]


def compare_selections(a: Selection, b: Selection, rules: Rules, force: bool = False) -> Report:
    """The whole of `tare compare`; BadInput where the two are not comparable."""
    matched = match_cases(a.records, b.records)
    environments = [(before.environment, now.environment) for before, now in matched.pairs]
    subjects, blocking = split_differences(environments, a.environment_fields | b.environment_fields)
    refuse_differences([] if force else blocking)
    usable = usable_pairs(matched.pairs, rules)
    count = sum(len(_to_test(before, now, rules)) for before, now in usable)
    # Half of the level, because the p-values are two-sided.
    required_p = LEVEL / 2 / max(count, 1)
    noises = {metric: suite_noise(_sides(usable, metric)) for metric in rules.metrics if not metric.exact}
    tests = {
        now.case: run_tests(before, now, rules, were_interleaved(before, now), required_p, noises)
        for before, now in usable
    }
    changes = judge_tests(tests, LEVEL)
    return make_report(
        matched,
        [case_change(before, now, changes, rules.thresholds) for before, now in matched.pairs],
        rules,
        assumptions=few_rounds_note(changes, LEVEL),
        a=a.label,
        b=b.label,
        compared=[str(difference) for difference in subjects],
        forced=[str(difference) for difference in blocking],
        level=LEVEL,
        runs={side: ", ".join(dict.fromkeys(r.run for r in s.records)) for side, s in (("a", a), ("b", b))},
    )


def make_report(
    matched: Matched,
    cases: list[CaseChange],
    rules: Rules,
    side_by_side: bool = False,
    assumptions: Sequence[str] = (),
    **fields: Any,
) -> Report:
    """The report of a comparison or check, with its notes. `fields` are the report's own."""
    pairs, only_a, only_b = matched
    notes = [*assumptions, *shared_change_note(cases)]
    if not side_by_side and not all(were_interleaved(a, b) for a, b in pairs):
        notes.append(
            "the two sides were not measured side by side: a change of the machine between them counts as a change"
        )
    notes += uncompared_metrics([pair for pair in pairs if is_comparable(*pair)], rules.metrics)
    notes += rules.thresholds.unused_patterns([*(now.case for _, now in pairs), *map(Case.parse, only_b)])
    return Report(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        cases=cases,
        notes=notes,
        only_a=only_a,
        only_b=only_b,
        environment=environment_summary(pairs[0][1]) if pairs else {},
        **fields,
    )


def match_cases(a: Sequence[Record], b: Sequence[Record]) -> Matched:
    """The pairs are in b's order. Of several versions of one model on a side, the newest is compared."""
    before, now = ({r.case.family: r for r in sorted(side, key=lambda r: r.created)} for side in (a, b))
    pairs = [(before[r.case.family], r) for r in b if r is now[r.case.family] and r.case.family in before]
    compared = {id(record) for pair in pairs for record in pair}
    only_a, only_b = ([r.case.key for r in side if id(r) not in compared] for side in (a, b))
    return Matched(pairs, only_a, only_b)


def usable_pairs(pairs: Sequence[RecordPair], rules: Rules) -> list[RecordPair]:
    """The pairs whose figures can be compared; BadInput if they have no metric in common."""
    usable = [pair for pair in pairs if is_comparable(*pair)]
    require_common(usable, rules.metrics)
    return usable


def is_comparable(a: Record, b: Record) -> bool:
    return a.ok and b.ok and not is_newly_different(a, b)


def run_tests(
    a: Record,
    b: Record,
    rules: Rules,
    paired: bool,
    required_p: float,
    noises: Mapping[Metric, float] = {},
) -> list[MetricTest]:
    """Tests every metric that both sides have and that is not ignored. `required_p` is the p at which a change is
    significant among all tests, and `noises` the least noise of a metric to be expected of few rounds."""
    tests = []
    for metric, limits in _to_test(a, b, rules):
        before, now = values(a, metric), values(b, metric)
        common = sorted(before.keys() & now.keys())
        pairs = paired and len(common) >= 2
        x = [before[i] for i in (common if pairs else before)]
        y = [now[i] for i in (common if pairs else now)]
        # A count that is zero in all rounds of one side only needs no statistics either, and has no ratio.
        from_or_to_zero = (max(x) == 0 < min(y)) or (max(y) == 0 < min(x))
        exact = metric.exact and (len(set(x)) == len(set(y)) == 1 or from_or_to_zero)
        b_first = order_within_pairs(a, b, common) if pairs else []
        comparison = None if exact else compare(x, y, pairs, required_p, b_first, noises.get(metric, 0.0))
        tests.append(MetricTest(b.case, metric, limits, x, y, comparison))
    return tests


def _to_test(a: Record, b: Record, rules: Rules) -> list[tuple[Metric, MetricLimits]]:
    limits = {metric: rules.thresholds.of(b.case, metric) for metric in rules.metrics}
    return [(m, limit) for m, limit in limits.items() if not limit.ignore and values(a, m) and values(b, m)]


def judge_tests(tests: Tests, level: float) -> Changes:
    """All tests with their verdicts, corrected for one another by the two-sided p-values."""
    noisy = {
        (case, test.metric.name): test.comparison.p
        for case in tests
        for test in tests[case]
        if test.comparison is not None and test.comparison.method != "none"
    }
    adjusted = dict(zip(noisy, adjust_p_values(list(noisy.values())), strict=True))
    return {
        case: {t.metric.name: metric_change(t, adjusted.get((case, t.metric.name)), level) for t in tests[case]}
        for case in tests
    }


def metric_change(
    test: MetricTest,
    adjusted_p: float | None,
    level: float,
    verdict: Verdict | None = None,
    stage: Stage = "first",
) -> MetricChange:
    """A test with its verdict, unless that is given."""
    metric, limits, comparison = test.metric, test.limits, test.comparison
    a, b = median(test.a), median(test.b)
    change = MetricChange(
        metric=metric.name,
        unit=metric.unit,
        exact=comparison is None,
        a=a,
        b=b,
        ratio=b / a if a else None,
        rounds_a=len(test.a),
        rounds_b=len(test.b),
        threshold=limits.threshold,
        margin=limits.margin,
        verdict="",
        stage=stage,
    )
    if comparison is None:
        verdict = "same" if a == b else ("higher" if b > a else "lower")
        change.regression = b > a * (1 + limits.threshold)
        varying = [f"{min(v):g} to {max(v):g} in its rounds" for v in (test.b, test.a) if min(v) < max(v)]
        change.note = varying[0] if varying else ""
    else:
        verdict = verdict or judge(comparison, limits.margin, adjusted_p, level)
        change.ratio, change.low, change.high = comparison.ratio.ratio_fields().values()
        change.p = comparison.p if comparison.method != "none" else None
        change.adjusted_p, change.paired = adjusted_p, comparison.paired
        change.method, change.outliers = comparison.method, comparison.outliers
        # The change is real, and its interval reaches the threshold.
        change.regression = verdict == "higher" and comparison.ratio.high >= 1 + limits.threshold
        if verdict == "undecided":
            change.more_rounds = _more_rounds(test, comparison, adjusted_p, level, stage)
            change.undecided_because = why_undecided(comparison, limits.margin, adjusted_p, level)
        if min(*test.a, *test.b) <= 0 and not comparison.ratio.sound:
            change.note = "zero in some rounds and not in others: there is no ratio"
        elif comparison.method == "none" and not comparison.ratio.sound:
            change.note = "one round: the noise between processes is not known"
    change.worse = verdict == "higher"
    change.verdict = {"lower": metric.words[0], "higher": metric.words[1]}.get(verdict, verdict)
    return change


def _more_rounds(
    test: MetricTest, comparison: Comparison, adjusted_p: float | None, level: float, stage: Stage
) -> int | None:
    """A confirmation tests one-sidedly for "worse", a first comparison two-sidedly. The correction for the other
    tests is assumed to stay as it is now."""
    p, sides = (comparison.p, 2) if stage == "first" else (comparison.p_higher, 1)
    correction = adjusted_p / p if adjusted_p is not None and p > 0 else 1.0
    return rounds_to_decide(comparison, test.limits.margin, level / max(correction, 1.0) / sides)


def case_change(a: Record, b: Record, changes: Changes, thresholds: Thresholds) -> CaseChange:
    identity: dict[str, Any] = {"case": b.case.family, "sources": (a.case.source, b.case.source)}
    if b.failure:
        return CaseChange(state="broken" if a.ok else "failed", reason=failure_text(b.failure), **identity)
    if a.failure:
        return CaseChange(state="fixed", reason=f"before: {failure_text(a.failure)}", **identity)
    if is_newly_different(a, b):
        reason = f"{b.parity.worst or 'its result'} is off: {b.parity.status}"
        return CaseChange(state="different", reason=reason, **identity)
    return CaseChange(
        **identity,
        state="compared",
        reason=failed_rounds_text(a, b),
        newly_failing=is_newly_failing(a, b),
        changes=list(changes.get(b.case, {}).values()),
        leaks=leaks(a, b, thresholds),
        records=(a.id, b.id),
        call_changes=compare_calls(call_counts(a), call_counts(b)),
    )


def failure_text(failure: Failure) -> str:
    return f"{failure.cause}: {failure.message}"


def failed_rounds_text(a: Record, b: Record) -> str:
    """How many rounds failed on either side. The good rounds are compared, but a reader must not overlook
    these."""
    return "; ".join(
        f"{len(failures)} of {len(record.rounds)} rounds failed {side} ({failure_text(failures[0])})"
        for record, side in ((b, "now"), (a, "before"))
        if (failures := round_failures(record))
    )


def is_newly_failing(a: Record, b: Record) -> bool:
    """Whether some rounds fail now and none did before. (A case of which all rounds fail is broken.)"""
    return b.ok and bool(round_failures(b)) and not round_failures(a)


def round_failures(record: Record) -> list[Failure]:
    return [round_.failure for round_ in record.rounds if round_.failure]


def is_newly_different(a: Record, b: Record) -> bool:
    return b.parity.status in WRONG_PARITY and a.parity.status not in WRONG_PARITY


def few_rounds_note(changes: Changes, level: float) -> list[str]:
    """What verdicts of few rounds assume. Their false discoveries are held to the level only if that is true."""
    few = [change for of_case in changes.values() for change in of_case.values() if change.method == "student"]
    changed = sum(change.verdict not in ("same", "undecided") for change in few)
    if not few:
        return []
    figures = "1 figure has" if len(few) == 1 else f"{len(few)} figures have"
    return [
        f"{figures} too few rounds for a test that holds under any noise ({changed} of them changed)"
        f": false discoveries are held to {level:.1%} there only if the noise between processes has one mode and "
        "is that of the other cases; 10 pairs of rounds, or more rounds on both sides, need no such assumption"
    ]


def _sides(pairs: Sequence[RecordPair], metric: Metric) -> list[list[float]]:
    return [list(figures.values()) for pair in pairs for record in pair if (figures := values(record, metric))]


def shared_change_note(cases: Sequence[CaseChange]) -> list[str]:
    """A note where all cases moved together: the machine, or something they all use, may have changed."""
    ratios = sorted(c.ratio for case in cases for c in case.changes if c.metric == "gross" and c.ratio)
    if len(ratios) < SHARED_FROM:
        return []
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    if low <= 1 <= high or abs(math.log(median(ratios))) < 0.01:
        return []
    return [
        f"half of all {len(ratios)} cases moved by {low - 1:+.1%} to {high - 1:+.1%} together: "
        "the machine may have changed, or something they all use"
    ]


def environment_summary(record: Record) -> dict[str, str]:
    machine, software = record.environment.machine, record.environment.software
    summary = {name: machine[name] for name in ("gpu", "cpu", "cores") if name in machine}
    names = ("torch", "cuda", "cudnn", "driver", "python", "tare")
    return summary | {name: software[name] for name in names if name in software}
