"""Comparing two sets of records, case by case and metric by metric."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any, NamedTuple

from tare.cases.case import Case
from tare.guard.changes import CaseChange, MetricChange, Report, Stage, counted_call_changes
from tare.guard.comparable import refuse_differences, split_differences, were_interleaved
from tare.guard.leak import leaks
from tare.guard.metrics import Metric, require_common, uncompared_metrics, values
from tare.guard.thresholds import MetricLimits, Thresholds
from tare.records.record import Failure, Record
from tare.stats.comparison import Comparison, Verdict, adjust_p_values, compare, judge
from tare.stats.power import rounds_to_decide
from tare.store.selection import Selection

# The false discovery rate of a comparison that is not confirmed by another.
LEVEL = 0.05
# With this many cases, a change that they all share is more likely the machine's than theirs.
SHARED_FROM = 8
WRONG_PARITY = ("different", "nan")


class MetricTest(NamedTuple):
    """One metric of one case before the verdict. `comparison` is None for an exact metric."""

    case: Case
    metric: Metric
    limits: MetricLimits
    a: list[float]
    b: list[float]
    comparison: Comparison | None


def compare_selections(
    a: Selection, b: Selection, thresholds: Thresholds, metrics: Sequence[Metric], force: bool = False
) -> Report:
    """The whole of `tare compare`; BadInput where the two are not comparable."""
    pairs, only_a, only_b = match_cases(a.records, b.records)
    environments = [(before.environment, now.environment) for before, now in pairs]
    subjects, blocking = split_differences(environments, a.environment_fields | b.environment_fields)
    refuse_differences([] if force else blocking)
    usable = [pair for pair in pairs if is_comparable(*pair)]
    require_common(usable, metrics)
    cases = compare_pairs(pairs, thresholds, metrics, were_interleaved)
    return Report(
        a=a.label,
        b=b.label,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        cases=cases,
        compared=[str(difference) for difference in subjects],
        forced=[str(difference) for difference in blocking],
        notes=[
            *shared_change_note(cases),
            *separate_runs_note(pairs),
            *uncompared_metrics(usable, metrics),
            *thresholds.unused_patterns(now.case for _, now in pairs),
        ],
        only_a=only_a,
        only_b=only_b,
        environment=environment_summary(pairs[0][1] if pairs else b.records[0]),
        level=LEVEL,
        runs={side: ", ".join(dict.fromkeys(r.run for r in s.records)) for side, s in (("a", a), ("b", b))},
    )


def match_cases(
    a: Sequence[Record], b: Sequence[Record]
) -> tuple[list[tuple[Record, Record]], list[str], list[str]]:
    """Records of the same case, in b's order, and the keys that only one side has."""
    before = {record.case.key: record for record in a}
    now = {record.case.key: record for record in b}
    pairs = [(before[key], record) for key, record in now.items() if key in before]
    return pairs, [key for key in before if key not in now], [key for key in now if key not in before]


def compare_pairs(
    pairs: Sequence[tuple[Record, Record]],
    thresholds: Thresholds,
    metrics: Sequence[Metric],
    paired: Callable[[Record, Record], bool],
    level: float = LEVEL,
) -> list[CaseChange]:
    """Verdicts with the false discovery rate over everything that was tested."""
    usable = [pair for pair in pairs if is_comparable(*pair)]
    count = sum(len(_to_test(a, b, thresholds, metrics)) for a, b in usable)
    # Half of it, because the p-values are two-sided.
    required_p = level / 2 / max(count, 1)
    tests = {b.case: run_tests(a, b, thresholds, metrics, paired(a, b), required_p) for a, b in usable}
    changes = judge_tests(tests, level)
    return [case_change(a, b, changes.get(b.case, []), thresholds) for a, b in pairs]


def is_comparable(a: Record, b: Record) -> bool:
    return a.ok and b.ok and not is_newly_different(a, b)


def run_tests(
    a: Record,
    b: Record,
    thresholds: Thresholds,
    metrics: Sequence[Metric],
    paired: bool,
    required_p: float,
) -> list[MetricTest]:
    """Tests every metric that both sides have and that is not ignored. `required_p` is the p at which a change is
    significant among all tests."""
    tests = []
    for metric, limits in _to_test(a, b, thresholds, metrics):
        before, now = values(a, metric), values(b, metric)
        common = sorted(before.keys() & now.keys())
        pairs = paired and len(common) >= 2
        x = [before[i] for i in (common if pairs else before)]
        y = [now[i] for i in (common if pairs else now)]
        # A count that is zero in all rounds of one side only needs no statistics either, and has no ratio.
        from_or_to_zero = (max(x) == 0 < min(y)) or (max(y) == 0 < min(x))
        exact = metric.exact and (len(set(x)) == len(set(y)) == 1 or from_or_to_zero)
        comparison = None if exact else compare(x, y, pairs, required_p=required_p)
        tests.append(MetricTest(b.case, metric, limits, x, y, comparison))
    return tests


def _to_test(
    a: Record, b: Record, thresholds: Thresholds, metrics: Sequence[Metric]
) -> list[tuple[Metric, MetricLimits]]:
    limits = {metric: thresholds.of(b.case, metric) for metric in metrics}
    return [(m, limit) for m, limit in limits.items() if not limit.ignore and values(a, m) and values(b, m)]


def judge_tests(tests: dict[Case, list[MetricTest]], level: float) -> dict[Case, list[MetricChange]]:
    """All tests with their verdicts, corrected for one another by the two-sided p-values."""
    noisy = [
        (id(test), test.comparison.p)
        for of_case in tests.values()
        for test in of_case
        if test.comparison is not None and test.comparison.method != "none"
    ]
    adjusted = dict(zip([i for i, _ in noisy], adjust_p_values([p for _, p in noisy]), strict=True))
    return {
        case: [metric_change(t, adjusted.get(id(t)), level) for t in of_case] for case, of_case in tests.items()
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
    fields: dict[str, Any] = {
        "metric": metric.name,
        "unit": metric.unit,
        "exact": comparison is None,
        "a": a,
        "b": b,
        "rounds_a": len(test.a),
        "rounds_b": len(test.b),
        "threshold": limits.threshold,
        "margin": limits.margin,
        "stage": stage,
    }
    if comparison is None:
        verdict = "same" if a == b else ("higher" if b > a else "lower")
        varying = [f"{min(v):g} to {max(v):g} in its rounds" for v in (test.b, test.a) if min(v) < max(v)]
        return MetricChange(
            **fields,
            ratio=b / a if a else None,
            verdict=_verdict_word(metric, verdict),
            worse=b > a,
            regression=b > a * (1 + limits.threshold),
            note=varying[0] if varying else "",
        )
    verdict = verdict or judge(comparison, limits.margin, adjusted_p, level)
    ratio = comparison.ratio
    return MetricChange(
        **fields,
        ratio=_finite(ratio.mid),
        low=_finite(ratio.low) if ratio.sound else None,
        high=_finite(ratio.high) if ratio.sound else None,
        p=comparison.p if comparison.method != "none" else None,
        adjusted_p=adjusted_p,
        paired=comparison.paired,
        method=comparison.method,
        outliers=comparison.outliers,
        verdict=_verdict_word(metric, verdict),
        worse=verdict == "higher",
        # The change is real, and its interval reaches the threshold.
        regression=verdict == "higher" and ratio.high >= 1 + limits.threshold,
        more_rounds=_more_rounds(test, comparison, adjusted_p, level, stage) if verdict == "undecided" else None,
        note=_why_no_interval(test) if comparison.method == "none" and not ratio.sound else "",
    )


def _more_rounds(
    test: MetricTest, comparison: Comparison, adjusted_p: float | None, level: float, stage: Stage
) -> int | None:
    """A confirmation tests one-sidedly for "worse", a first comparison two-sidedly. The correction for the other
    tests is assumed to stay as it is now."""
    p, sides = (comparison.p, 2) if stage == "first" else (comparison.p_higher, 1)
    correction = adjusted_p / p if adjusted_p is not None and p > 0 else 1.0
    return rounds_to_decide(comparison, test.limits.margin, level / max(correction, 1.0) / sides)


def _why_no_interval(test: MetricTest) -> str:
    if min(*test.a, *test.b) <= 0:
        return "zero in some rounds and not in others: there is no ratio"
    return "one round: the noise between processes is not known"


def _verdict_word(metric: Metric, verdict: Verdict) -> str:
    return {"lower": metric.words[0], "higher": metric.words[1]}.get(verdict, verdict)


def case_change(a: Record, b: Record, changes: list[MetricChange], thresholds: Thresholds) -> CaseChange:
    key = b.case.key
    if not b.ok and b.failure:
        reason = f"{b.failure.cause}: {b.failure.message}"
        return CaseChange(case=key, state="broken" if a.ok else "failed", reason=reason)
    if not a.ok and a.failure:
        return CaseChange(case=key, state="fixed", reason=f"before: {a.failure.cause}: {a.failure.message}")
    if is_newly_different(a, b):
        reason = f"{b.parity.worst or 'its result'} is off: {b.parity.status}"
        return CaseChange(case=key, state="different", reason=reason)
    return CaseChange(
        case=key,
        state="compared",
        reason=failed_rounds_text(a, b),
        newly_failing=is_newly_failing(a, b),
        changes=changes,
        leaks=leaks(a, b, thresholds),
        records=(a.id, b.id),
        call_changes=counted_call_changes(a, b),
    )


def failed_rounds_text(a: Record, b: Record) -> str:
    """How many rounds failed on either side. The good rounds are compared, but a reader must not overlook
    these."""
    texts = []
    for record, side in ((b, "now"), (a, "before")):
        if failures := round_failures(record):
            share = f"{len(failures)} of {len(record.rounds)} rounds failed {side}"
            texts.append(f"{share} ({failures[0].cause}: {failures[0].message})")
    return "; ".join(texts)


def is_newly_failing(a: Record, b: Record) -> bool:
    """Whether some rounds fail now and none did before. (A case of which all rounds fail is broken.)"""
    return b.ok and bool(round_failures(b)) and not round_failures(a)


def round_failures(record: Record) -> list[Failure]:
    return [round_.failure for round_ in record.rounds if round_.failure]


def is_newly_different(a: Record, b: Record) -> bool:
    return b.parity.status in WRONG_PARITY and a.parity.status not in WRONG_PARITY


def shared_change_note(cases: Sequence[CaseChange]) -> list[str]:
    """A note where all cases moved together: the machine, or something they all use, may have changed."""
    ratios = [c.ratio for case in cases for c in case.changes if c.metric == "gross" and c.ratio]
    if len(ratios) < SHARED_FROM:
        return []
    logs = sorted(math.log(ratio) for ratio in ratios)
    quarter = len(logs) // 4
    if logs[quarter] <= 0 <= logs[-1 - quarter] or abs(median(logs)) < 0.01:
        return []
    return [
        f"half of all {len(ratios)} cases moved by {math.expm1(logs[quarter]):+.1%} to "
        f"{math.expm1(logs[-1 - quarter]):+.1%} together: the machine may have changed, or something they all use"
    ]


def separate_runs_note(pairs: Sequence[tuple[Record, Record]]) -> list[str]:
    if not pairs or all(were_interleaved(a, b) for a, b in pairs):
        return []
    return [
        "the two sides were not measured side by side: a change of the machine between them counts as a change"
    ]


def environment_summary(record: Record) -> dict[str, str]:
    machine, software = record.environment.machine, record.environment.software
    summary = {name: machine[name] for name in ("gpu", "cpu", "cores") if name in machine}
    names = ("torch", "cuda", "cudnn", "driver", "python", "tare")
    return summary | {name: software[name] for name in names if name in software}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
