"""Comparing two sets of records, case by case and metric by metric."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any, NamedTuple

from tare.cases.case import Case
from tare.guard.changes import CaseChange, Change, Report, Stage
from tare.guard.comparable import refuse, split_differences, were_interleaved
from tare.guard.environment_diff import counted_differences
from tare.guard.leak import leaks
from tare.guard.metrics import Metric, values
from tare.guard.missing import absences, refuse_nothing
from tare.guard.thresholds import Limits, Thresholds
from tare.records.record import Failure, Record
from tare.stats.comparison import Comparison, Verdict, adjust_p_values, compare, judge
from tare.stats.power import rounds_to_decide
from tare.store.selection import Selection

# The false discovery rate of a comparison that is not confirmed by another.
LEVEL = 0.05
# With this many cases, a change that they all share is rather the machine's than theirs.
SHARED_FROM = 8

Paired = Callable[[Record, Record], bool]


class Tested(NamedTuple):
    """One metric of one case before anything is concluded. `found` is None for an exact metric."""

    case: Case
    metric: Metric
    limits: Limits
    a: list[float]
    b: list[float]
    found: Comparison | None


def compare_selections(
    a: Selection, b: Selection, thresholds: Thresholds, metrics: Sequence[Metric], force: bool = False
) -> Report:
    """The whole of `tare compare`; BadInput where the two are not comparable."""
    pairs, only_a, only_b = match(a.records, b.records)
    subjects, hindrances = split_differences(pairs, a.environment_fields | b.environment_fields)
    refuse([] if force else hindrances)
    able = [(a, b) for a, b in pairs if comparable(a, b)]
    refuse_nothing(able, metrics)
    cases = compare_pairs(pairs, thresholds, metrics, were_interleaved)
    unused = thresholds.idle(b.case for _, b in pairs)
    return Report(
        a=a.label,
        b=b.label,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        cases=cases,
        compared=[str(one) for one in subjects],
        forced=[str(one) for one in hindrances],
        notes=shared_change(cases) + apart(pairs) + absences(able, metrics) + unused,
        only_a=only_a,
        only_b=only_b,
        environment=summary(pairs[0][1] if pairs else b.records[0]),
        level=LEVEL,
        runs={"a": _runs(a.records), "b": _runs(b.records)},
    )


def match(a: Sequence[Record], b: Sequence[Record]) -> tuple[list[tuple[Record, Record]], list[str], list[str]]:
    """Records of the same case, in b's order, and the keys that only one side has."""
    before = {record.case.key: record for record in a}
    now = {record.case.key: record for record in b}
    pairs = [(before[key], record) for key, record in now.items() if key in before]
    return pairs, [key for key in before if key not in now], [key for key in now if key not in before]


def compare_pairs(
    pairs: Sequence[tuple[Record, Record]],
    thresholds: Thresholds,
    metrics: Sequence[Metric],
    paired: Paired,
    level: float = LEVEL,
) -> list[CaseChange]:
    """Verdicts with the false discovery rate over everything that was tested."""
    able = [(a, b) for a, b in pairs if comparable(a, b)]
    count = sum(len(_to_test(a, b, thresholds, metrics)) for a, b in able)
    # Half of it, for the p-values are two-sided.
    reach = level / 2 / max(count, 1)
    tested = {b.case.key: test(a, b, thresholds, metrics, paired(a, b), reach) for a, b in able}
    everything = [one for tests in tested.values() for one in tests]
    ps = adjust(everything)
    changes = {key: [conclude(one, ps.get(id(one)), level) for one in tests] for key, tests in tested.items()}
    return [case_change(a, b, changes.get(b.case.key, []), thresholds) for a, b in pairs]


def comparable(a: Record, b: Record) -> bool:
    return a.ok and b.ok and not newly_different(a, b)


def test(
    a: Record,
    b: Record,
    thresholds: Thresholds,
    metrics: Sequence[Metric],
    paired: bool,
    reach: float,
) -> list[Tested]:
    """Every metric that both sides have and nobody ignores. `reach` is the p that a change must be able to get."""
    tested = []
    for metric, limits in _to_test(a, b, thresholds, metrics):
        before, now = values(a, metric), values(b, metric)
        together = sorted(before.keys() & now.keys())
        pairs = paired and len(together) >= 2
        x = [before[i] for i in (together if pairs else before)]
        y = [now[i] for i in (together if pairs else now)]
        exact = metric.exact and (len(set(x)) == len(set(y)) == 1 or _from_or_to_nothing(x, y))
        tested.append(Tested(b.case, metric, limits, x, y, None if exact else compare(x, y, pairs, required_p=reach)))
    return tested


def _to_test(
    a: Record, b: Record, thresholds: Thresholds, metrics: Sequence[Metric]
) -> list[tuple[Metric, Limits]]:
    limited = ((metric, thresholds.of(b.case, metric)) for metric in metrics)
    return [(one, limits) for one, limits in limited if not limits.ignore and values(a, one) and values(b, one)]


def _from_or_to_nothing(x: Sequence[float], y: Sequence[float]) -> bool:
    """Whether a count is zero in all rounds of one side and in none of the other: that needs no statistics either,
    however much the other side's rounds differ, and a ratio it has not."""
    return (max(x) == 0 < min(y)) or (max(y) == 0 < min(x))


def adjust(tested: Sequence[Tested]) -> dict[int, float]:
    """The two-sided p-values after Benjamini and Hochberg, by the identity of the test."""
    noisy = [one for one in tested if one.found is not None and one.found.method != "none"]
    ps = adjust_p_values([one.found.p for one in noisy if one.found is not None])
    return {id(one): p for one, p in zip(noisy, ps, strict=True)}


def conclude(
    tested: Tested,
    adjusted_p: float | None,
    level: float,
    verdict: Verdict | None = None,
    stage: Stage = "first",
) -> Change:
    """A test as a change with its verdict, which may have been reached elsewhere."""
    metric, limits, found = tested.metric, tested.limits, tested.found
    a, b = median(tested.a), median(tested.b)
    facts: dict[str, Any] = {
        "metric": metric.name,
        "unit": metric.unit,
        "exact": found is None,
        "a": a,
        "b": b,
        "rounds_a": len(tested.a),
        "rounds_b": len(tested.b),
        "threshold": limits.threshold,
        "margin": limits.margin,
        "stage": stage,
    }
    if found is None:
        verdict = "same" if a == b else ("higher" if b > a else "lower")
        over = b > a * (1 + limits.threshold)
        return Change(
            **facts, ratio=b / a if a else None, verdict=word(metric, verdict), worse=b > a, regression=over,
            note=_varying(tested),
        )  # fmt: skip
    said = verdict or judge(found, limits.margin, adjusted_p, level)
    worse = said == "higher"
    return Change(
        **facts,
        ratio=_finite(found.ratio.mid),
        low=_finite(found.ratio.low) if found.ratio.sound else None,
        high=_finite(found.ratio.high) if found.ratio.sound else None,
        p=found.p if found.method != "none" else None,
        adjusted_p=adjusted_p,
        paired=found.paired,
        method=found.method,
        set_aside=found.outliers,
        verdict=word(metric, said),
        worse=worse,
        # It is real, and as far as one can tell it may be as large as the threshold.
        regression=worse and found.ratio.high >= 1 + limits.threshold,
        more_rounds=_more_rounds(tested, found, adjusted_p, level, stage) if said == "undecided" else None,
        note=_unknown(tested) if found.method == "none" and not found.ratio.sound else "",
    )


def _more_rounds(
    tested: Tested, found: Comparison, adjusted_p: float | None, level: float, stage: Stage
) -> int | None:
    """A confirmation asks one-sidedly whether it got worse, a first comparison whether anything changed. Its p is
    multiplied for the tests beside it, as far as one can tell by as much as now."""
    p, sides = (found.p, 2) if stage == "first" else (found.p_higher, 1)
    others = adjusted_p / p if adjusted_p is not None and p > 0 else 1.0
    return rounds_to_decide(found, tested.limits.margin, level / max(others, 1.0) / sides)


def _varying(tested: Tested) -> str:
    return next((f"{min(v):g} to {max(v):g} in its rounds" for v in (tested.b, tested.a) if min(v) < max(v)), "")


def _unknown(tested: Tested) -> str:
    if min(*tested.a, *tested.b) <= 0:
        return "zero in some rounds and not in others: there is no ratio"
    return "one round: the noise between processes is not known"


def word(metric: Metric, verdict: Verdict) -> str:
    return {"lower": metric.words[0], "higher": metric.words[1]}.get(verdict, verdict)


def case_change(a: Record, b: Record, changes: list[Change], thresholds: Thresholds) -> CaseChange:
    key = b.case.key
    if not b.ok and b.failure:
        state = "broken" if a.ok else "failed"
        return CaseChange(case=key, state=state, reason=f"{b.failure.cause}: {b.failure.message}")  # type: ignore[arg-type]
    if not a.ok and a.failure:
        return CaseChange(case=key, state="mended", reason=f"before: {a.failure.cause}: {a.failure.message}")
    if newly_different(a, b):
        return CaseChange(
            case=key, state="different", reason=f"{b.parity.worst or 'its result'} is off: {b.parity.status}"
        )
    return CaseChange(
        case=key,
        state="compared",
        reason=failed_rounds(a, b),
        newly_failing=newly_failing(a, b),
        changes=changes,
        leaks=leaks(a, b, thresholds),
        records=(a.id, b.id),
        differing=counted_differences(a, b),
    )


def failed_rounds(a: Record, b: Record) -> str:
    """What works in some processes and not in others is compared by the good ones; nobody should overlook it."""
    told = []
    for record, when in ((b, "now"), (a, "before")):
        if failures := failures_of(record):
            share = f"{len(failures)} of {len(record.rounds)} rounds failed {when}"
            told.append(f"{share} ({failures[0].cause}: {failures[0].message})")
    return "; ".join(told)


def newly_failing(a: Record, b: Record) -> bool:
    """Whether some rounds fail now and none did before. (A case of which all fail is broken.)"""
    return b.ok and bool(failures_of(b)) and not failures_of(a)


def failures_of(record: Record) -> list[Failure]:
    return [done.failure for done in record.rounds if done.failure]


def newly_different(a: Record, b: Record) -> bool:
    wrong = ("different", "nan")
    return b.parity.status in wrong and a.parity.status not in wrong


def shared_change(cases: Sequence[CaseChange]) -> list[str]:
    """A note where all cases moved together: then it is rather the machine, or something all of them use."""
    ratios = [c.ratio for case in cases for c in case.changes if c.metric == "gross" and c.ratio]
    if len(ratios) < SHARED_FROM:
        return []
    logs = sorted(math.log(ratio) for ratio in ratios)
    middle, quarter = median(logs), len(logs) // 4
    if logs[quarter] <= 0 <= logs[-1 - quarter] or abs(middle) < 0.01:
        return []
    return [
        f"half of all {len(ratios)} cases moved by {math.expm1(logs[quarter]):+.1%} to "
        f"{math.expm1(logs[-1 - quarter]):+.1%} together: the machine may have changed, or something they all use"
    ]


def apart(pairs: Sequence[tuple[Record, Record]]) -> list[str]:
    if not pairs or all(were_interleaved(a, b) for a, b in pairs):
        return []
    return [
        "the two sides were not measured side by side: a change of the machine between them counts as a change"
    ]


def summary(record: Record) -> dict[str, str]:
    """The environment in the few words that a report needs."""
    machine, software = record.environment.machine, record.environment.software
    facts: dict[str, str] = {name: machine[name] for name in ("gpu", "cpu", "cores") if name in machine}
    facts |= {
        name: software[name] for name in ("torch", "cuda", "cudnn", "driver", "python", "tare") if name in software
    }
    return facts


def _runs(records: Sequence[Record]) -> str:
    return ", ".join(dict.fromkeys(record.run for record in records))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
