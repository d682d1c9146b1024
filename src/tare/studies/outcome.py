"""What a rule says: an outcome, with our figure beside the paper's."""

import math
from typing import Any, Literal

import msgspec

from tare.cases.case import Case
from tare.records.environment import Environment
from tare.stats.intervals import Interval
from tare.studies.rules import StudyRule, name_of

# `missing`: there is no figure, or one that cannot be sure. `impossible`: there can be none here.
Outcome = Literal["holds", "contradicted", "undecided", "missing", "impossible"]
# Fewer points than this are no sample of others.
FEWEST_SAMPLE = 8


class OurFigure(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine says. `low` and `high` bound the 95 % interval, and are None where there is none; `least`
    and `most` are those of single points, of which there are `points` of `planned`; `rounds` the fewest behind
    one."""

    value: float
    low: float | None = None
    high: float | None = None
    least: float
    most: float
    # x, s, B, J, share, frames, or nothing for a plain number.
    unit: str
    points: int
    planned: int
    rounds: int
    parity: str
    machine: str = ""


class PartVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one rule says. The claim holds with a figure within the `limits`. `values` has the value or ratio of
    each point, by the key of its case, and `missed` the reasons why others have none."""

    rule: str
    label: str = ""
    published: float | None = None
    limits: tuple[float | None, float | None] = (None, None)
    outcome: Outcome
    reason: str = ""
    figure: OurFigure | None = None
    values: dict[str, float] = {}
    missed: dict[str, str] = {}


def make_part(rule: StudyRule, outcome: Outcome, reason: str = "", **facts: Any) -> PartVerdict:
    low, high = (bound if math.isfinite(bound) else None for bound in rule.region)
    return PartVerdict(
        rule=name_of(rule),
        label=rule.label,
        published=rule.published,
        limits=(low, high),
        outcome=outcome,
        reason=reason,
        **facts,
    )


def beside_region(rule: StudyRule, interval: Interval, figure: OurFigure, unsound: str = "") -> PartVerdict:
    """Whether the claim holds, by where the interval of the figure lies. `unsound` says why there is none."""
    low, high = rule.region
    if not interval.sound:
        return make_part(rule, "missing", unsound or one_round(figure), figure=figure)
    # A mean over many points has an interval, but every point may be off in the same direction.
    if figure.rounds < 2 and figure.low != figure.high:
        return make_part(rule, "undecided", one_round(figure), figure=figure)
    if low <= interval.low and interval.high <= high:
        return make_part(rule, "holds", figure=figure)
    if low <= interval.high and interval.low <= high:
        return make_part(rule, "undecided", too_wide(figure), figure=figure)
    is_above = high < interval.low
    where = f"{'above' if is_above else 'below'} {limit_text(high if is_above else low, figure.unit)}"
    return make_part(rule, "contradicted", where, figure=figure)


def limit_text(value: float, unit: str) -> str:
    """A limit in the unit of the figure."""
    if unit == "share":
        return f"{100 * value:.3g} %"
    return f"{value:.3g}{unit if unit == 'x' else ''}"


def one_round(figure: OurFigure) -> str:
    return "one round is a lead, not a result" if figure.rounds < 2 else "the rounds give no interval"


def too_wide(figure: OurFigure) -> str:
    counts = f"{plural(figure.points, 'point')}, {plural(figure.rounds, 'round')}"
    return f"too coarse to decide ({counts}): the interval reaches over a limit"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def few_for_a_sample(count: int, what: str) -> str:
    return f"{count} {what} are no sample of others: {FEWEST_SAMPLE} are"


def describe(environment: Environment, case: Case) -> str:
    """The device and the version of torch, in a few words."""
    machine = environment.machine
    cpu = f"{machine.get('cpu', 'unknown CPU')} ({machine.get('cores', '?')} cores)"
    chip = machine.get("gpu", cpu) if case.device_type == "cuda" else cpu
    return f"{chip}, torch {environment.software.get('torch', '?')}"
