"""What a rule says of the evidence, and the rules that are not about points: failures, shares, coverage, depth."""

from collections.abc import Sequence
from statistics import fmean, geometric_mean

import msgspec
import numpy as np

from tare.records.record import Record
from tare.records.training import FigureName
from tare.stats.comparison import CONFIDENCE
from tare.stats.intervals import Interval, mean_interval
from tare.studies.evidence import Evidence
from tare.studies.outcome import (
    FEWEST_SAMPLE,
    OurFigure,
    PartVerdict,
    beside_region,
    describe,
    few_for_a_sample,
    make_part,
    plural,
)
from tare.studies.over_points import JUDGES
from tare.studies.points import brief_case, collect_points, select
from tare.studies.rules import (
    AccuracyRule,
    CoverageRule,
    DepthRule,
    FailsRule,
    OverPoints,
    ShareRule,
    StudyRule,
)
from tare.trace.group import group_breakdowns

RUNG = "rung="


def judge_rule(rule: StudyRule, evidence: Evidence) -> PartVerdict:
    if isinstance(rule, OverPoints):
        return _judge_points(rule, evidence)
    if isinstance(rule, FailsRule):
        return _judge_failing(rule, evidence)
    if isinstance(rule, ShareRule):
        return _judge_share(rule, evidence)
    if isinstance(rule, CoverageRule):
        return _judge_coverage(rule, evidence)
    if isinstance(rule, AccuracyRule):
        return _judge_accuracy(rule, evidence)
    assert isinstance(rule, DepthRule)
    return _judge_depth(rule, evidence)


def _judge_points(rule: OverPoints, evidence: Evidence) -> PartVerdict:
    found = collect_points(rule, evidence.records)
    if not found.points:
        reason = next(iter(found.missed.values()), "")
        if found.impossible and len(found.impossible) == found.planned:
            return make_part(rule, "impossible", reason, missed=found.missed)
        if skipped := skipped_reason((rule.of, rule.to), evidence):
            return make_part(rule, "impossible", skipped, missed=found.missed)
        none = found.problem or no_record(rule.of)
        return make_part(rule, "missing", reason or none, missed=found.missed)
    judged = JUDGES[type(rule)](rule, found)
    if len(found.points) < rule.fewest and judged.outcome != "missing":
        few = f"{plural(len(found.points), 'point')} of the {rule.fewest} or more that decide this claim"
        judged = msgspec.structs.replace(judged, outcome="missing", reason=few)
    unproven = [record.case.rung for point in found.points for record in point.records if _is_unproven(record)]
    if unproven and judged.outcome != "missing":
        reason = f"the parity of {unproven[0]} was not checked: a lead, not a result"
        judged = msgspec.structs.replace(judged, outcome="missing", reason=reason)
    values = {point.case.key: geometric_mean(point.values) for point in found.points}
    return msgspec.structs.replace(judged, values=values, missed=found.missed)


def _is_unproven(record: Record) -> bool:
    """Whether nobody has checked that the rung computes what it should. Eager is what a user runs."""
    return record.parity.status == "unchecked" and record.case.rung.partition("@")[0] != "eager"


def no_record(terms: Sequence[str]) -> str:
    return f"no record of {' '.join(terms)}"


def skipped_reason(sides: Sequence[Sequence[str]], evidence: Evidence) -> str:
    """Why the runs of the study measured no case of a rung that a side names: it is not installed, for example."""
    measured = {record.case.rung for record in evidence.records}
    for terms in sides:
        rungs = {rung for term in terms if term.startswith(RUNG) for rung in term.removeprefix(RUNG).split(",")}
        reasons = [skip.reason for skip in evidence.skips if skip.key.split("/")[1] in rungs]
        if reasons and rungs.isdisjoint(measured):
            return reasons[0]
    return ""


def _judge_failing(rule: FailsRule, evidence: Evidence) -> PartVerdict:
    chosen = select(evidence.records, rule.of)
    if not chosen:
        skipped = skipped_reason([rule.of], evidence)
        return make_part(rule, "impossible" if skipped else "missing", skipped or no_record(rule.of))
    ran = [record for record in chosen if record.ok]
    figure = OurFigure(
        value=len(chosen) - len(ran),
        least=0,
        most=len(chosen),
        unit="failed",
        points=len(chosen),
        planned=len(chosen),
        rounds=min(len(record.rounds) for record in chosen),
        parity=(ran or chosen)[0].parity.status,
        machine=describe(chosen[0].environment, chosen[0].case),
    )
    if ran and all(record.parity.status in ("different", "nan") for record in ran):
        return make_part(rule, "undecided", "it runs, and computes something else", figure=figure)
    if ran:
        return make_part(rule, "contradicted", f"it runs: {brief_case(ran[0].case)}", figure=figure)
    failures = [record.failure for record in chosen if record.failure]
    why = f"{failures[0].cause}: {failures[0].message}"
    if all(failure.cause == "not-installed" for failure in failures):
        return make_part(rule, "impossible", why, figure=figure)
    return make_part(rule, "holds", why, figure=figure)


def _judge_share(rule: ShareRule, evidence: Evidence) -> PartVerdict:
    bars = [
        bar
        for bar in group_breakdowns(evidence.explanations).bars
        if (bar.mode, bar.rung) == (rule.mode, rule.rung) and rule.domain in ("all", bar.domain)
    ]
    if not bars:
        return make_part(rule, "missing", f"no breakdown of {rule.domain} for {rule.mode} on {rule.rung}")
    # Every explanation of a workload is a profile of its own.
    by_workload: dict[str, list[float]] = {}
    for bar in bars:
        by_workload.setdefault(bar.workload, []).append(getattr(bar, rule.part))
    shares = [fmean(profiles) for profiles in by_workload.values()]
    mean = mean_interval(np.array(shares), CONFIDENCE)
    mean = mean._replace(sound=mean.sound and len(shares) >= FEWEST_SAMPLE)
    figure = OurFigure(
        value=mean.mid,
        low=mean.low if mean.sound else None,
        high=mean.high if mean.sound else None,
        least=min(shares),
        most=max(shares),
        unit="share",
        points=len(shares),
        planned=len(shares),
        rounds=min(map(len, by_workload.values())),
        parity="unchecked",
        machine=", ".join(sorted({one.device for one in evidence.explanations if one.device})),
    )
    return beside_region(rule, mean, figure, few_for_a_sample(len(shares), "workloads"))


def _judge_coverage(rule: CoverageRule, evidence: Evidence) -> PartVerdict:
    groups = {group.group: group for group in evidence.coverage.groups} if evidence.coverage else {}
    of, to = groups.get(rule.of), groups.get(rule.to)
    if evidence.coverage is None or of is None or to is None or not to.covered.get(rule.registry):
        return make_part(rule, "missing", f"no coverage of {rule.of} and {rule.to}")
    ratio = of.covered.get(rule.registry, 0) / to.covered[rule.registry]
    ran, planned = of.ran + to.ran, of.workloads + to.workloads
    return _counted(rule, ratio, "x", ran, planned, f"torch {evidence.coverage.torch}")


def _judge_depth(rule: DepthRule, evidence: Evidence) -> PartVerdict:
    wanted = (rule.workload, rule.rung)
    depths = [depth for depth in evidence.depths if (depth.case.workload, depth.case.rung) == wanted]
    depth = next((each for each in depths if each.stack), None)
    if depth is None or depth.stack is None:
        return make_part(rule, "missing", f"no call of {rule.workload} on {rule.rung} was counted")
    stack = depth.stack
    count = {"python": len(stack.python), "native": len(stack.native), "all": stack.total}[rule.frames]
    return _counted(rule, float(count), "frames", 1, 1, f"{depth.case.device}, {stack.entry}")


def _judge_accuracy(rule: AccuracyRule, evidence: Evidence) -> PartVerdict:
    """By the training with the most runs of both rungs, the newest of several."""
    name: FigureName = "train_accuracy" if rule.split == "train" else "test_accuracy"
    known = [
        (len(pairs), training.created, training, pairs)
        for training in evidence.trainings
        if training.settings.data == rule.data
        and training.rungs[0].case.workload == rule.workload
        and (pairs := training.pairs(rule.of, rule.to, name))
    ]
    if not known:
        command = f"tare train {rule.workload} --data {rule.data} --rung {rule.to},{rule.of}"
        return make_part(rule, "missing", f"no training of {rule.workload} on {rule.data}: {command}")
    count, _, training, pairs = max(known, key=lambda each: each[:2])
    differences = [of - to for of, to in pairs]
    mean = mean_interval(np.array(differences), CONFIDENCE)
    figure = OurFigure(
        value=mean.mid,
        low=mean.low if mean.sound else None,
        high=mean.high if mean.sound else None,
        least=min(differences),
        most=max(differences),
        unit="share",
        points=1,
        planned=1,
        rounds=count,
        parity="unchecked",
        machine=describe(training.environment, training.rungs[0].case),
    )
    few = "" if mean.sound else "one run is a lead, not a result"
    return beside_region(rule, mean, figure, few)


def _counted(rule: StudyRule, value: float, unit: str, points: int, planned: int, machine: str) -> PartVerdict:
    """A figure that was counted: nothing was timed, and it would be the same again."""
    figure = OurFigure(
        value=value, low=value, high=value, least=value, most=value, unit=unit, points=points, planned=planned,
        rounds=1, parity="unchecked", machine=machine,
    )  # fmt: skip
    return beside_region(rule, Interval(value, value, value), figure)
