"""The points of a rule: which records its selections name, which of them belong together, and what is left out.

The points of a figure come from one machine and one software, unless the rule is about their difference.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tare.cases.case import Case
from tare.errors import BadInput
from tare.guard.metrics import Metric, values
from tare.records.environment import Environment
from tare.records.record import COMPARABLE, Record
from tare.store.selection import filter_records
from tare.studies.metrics import study_metric
from tare.studies.rules import ENVIRONMENT, OverPoints, TrendRule

# Failures that say what a machine lacks or a rung cannot do, rather than that something went wrong.
IMPOSSIBLE = ("unsupported", "not-installed")


class StudyPoint(NamedTuple):
    """`values` has, for each round, the metric or its ratio of two sides; `records` are those of the sides."""

    case: Case
    values: list[float]
    records: tuple[Record, ...]


class Points(NamedTuple):
    """`missed` says why other points, by the keys of their cases, have no value; `impossible` has those that are
    impossible here; `problem` says why there are none at all."""

    metric: Metric
    points: list[StudyPoint]
    missed: dict[str, str]
    impossible: dict[str, str]
    environments: tuple[Environment, ...] = ()
    problem: str = ""

    @property
    def planned(self) -> int:
        return len(self.points) + len(self.missed)

    @property
    def rounds(self) -> int:
        """The fewest rounds behind a point."""
        return min((len(point.values) for point in self.points), default=0)

    @property
    def parity(self) -> str:
        every = [record.parity.status for point in self.points for record in point.records]
        return "unchecked" if "unchecked" in every else "same"


def collect_points(rule: OverPoints, records: Sequence[Record]) -> Points:
    """The points of the installation that has most of them, the newest of several with as many."""
    metric = study_metric(rule.metric)
    if rule.between_machines:
        return _points_of_machines(rule, metric, select(records, rule.of))
    sides = [select(records, terms) for terms in (rule.of, rule.to) if terms]
    # What both sides select belongs to the second: `of` may be "every number of threads", and `to` "one thread".
    second = {id(record) for record in sides[1]} if rule.to else set()
    sides[0] = [record for record in sides[0] if id(record) not in second]
    groups: dict[str, list[list[Record]]] = {}
    for i, side in enumerate(sides):
        for record in side:
            name = "" if ENVIRONMENT in rule.differ else record.environment.base_id
            groups.setdefault(name, [[] for _ in sides])[i].append(record)
    names = (" ".join(rule.of), " ".join(rule.to))
    candidates = [_points_of(rule, metric, group, names) for group in groups.values()]
    if not candidates:
        return Points(metric, [], {}, {})
    return max(candidates, key=lambda points: (len(points.points), _newest(points)))


def select(records: Sequence[Record], terms: Sequence[str]) -> list[Record]:
    # Which fields exist depends on the records that the workload chooses: terms are applied one by one.
    for term in terms:
        records = filter_records(list(records), [term]).records
    return list(records)


def _points_of_machines(rule: OverPoints, metric: Metric, records: Sequence[Record]) -> Points:
    """The two installations with the most records, in the order in which they were given."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.environment.base_id, []).append(record)
    if len(groups) < 2:
        problem = "there are records of one machine: give those of two" if groups else ""
        return Points(metric, [], {}, {}, problem=problem)
    most = sorted(groups, key=lambda name: -len(groups[name]))[:2]
    sides = [group for name, group in groups.items() if name in most]
    return _points_of(rule, metric, sides, ("the first machine", "the second machine"))


def _points_of(
    rule: OverPoints, metric: Metric, sides: Sequence[Sequence[Record]], names: Sequence[str]
) -> Points:
    by_side = [_by_place(rule, side) for side in sides]
    points: list[StudyPoint] = []
    missed: dict[str, str] = {}
    impossible: dict[str, str] = {}
    environments: dict[str, Environment] = {}
    for place in dict.fromkeys(place for side in by_side for place in side):
        found = _newest_together([side.get(place, []) for side in by_side])
        present = [record for record in found if record is not None]
        case = present[0].case
        if reason := next((why for record in present if (why := _why_not(record))), ""):
            missed[case.key] = reason
            if any(map(is_impossible, present)):
                impossible[case.key] = reason
            continue
        if missing := [name for name, record in zip(names, found, strict=False) if record is None]:
            missed[case.key] = f"no record of {missing[0]}"
            continue
        figures = _ratios([values(record, metric) for record in present])
        if not figures:
            lacking = next((r.case.rung for r in present if not values(r, metric)), "")
            missed[case.key] = f"{lacking} has no {metric.name}" if lacking else f"its {metric.name} is zero"
            continue
        points.append(StudyPoint(case, figures, tuple(present)))
        environments |= {record.environment.base_id: record.environment for record in present}
    return Points(metric, points, missed, impossible, tuple(environments.values()))


def _by_place(rule: OverPoints, side: Sequence[Record]) -> dict[Any, list[Record]]:
    """The records at each place, the newest first. A place is a case without what the sides differ in."""
    places: dict[Any, list[Record]] = {}
    for record in sorted(side, key=lambda record: record.created, reverse=True):
        others = places.setdefault(place_of(record.case, rule.differ if rule.is_ratio else ()), [])
        others.append(record)
        if others[0].case != record.case:
            raise BadInput(
                f"a side of the rule has two cases for one point, {others[0].case.key} and {record.case.key}: "
                "name more in its selection, or less in `differ`"
            )
    return places


def _newest_together(sides: Sequence[Sequence[Record]]) -> list[Record | None]:
    """The newest record of each side, of one run where there is one: only there the sides were interleaved."""
    for record in sides[0]:
        same_run = [next((other for other in side if other.run == record.run), None) for side in sides]
        if None not in same_run:
            return same_run
    return [side[0] if side else None for side in sides]


def place_of(case: Case, without: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    fields: Mapping[str, Any] = {name: getattr(case, name) for name in case.__struct_fields__ if name != "sizes"}
    return tuple((name, value) for name, value in (*fields.items(), *case.sizes.items()) if name not in without)


def brief_case(case: Case) -> str:
    """What tells the points of a figure apart, in a few words."""
    return " ".join((case.workload, case.mode, case.precision, case.key.split("/")[-2]))


def axis_value(case: Case, rule: TrendRule) -> int | None:
    value = case.sizes.get(rule.axis, getattr(case, rule.axis, None))
    return value if isinstance(value, int) else None


def _why_not(record: Record) -> str:
    """Why the time of a record is not compared with others."""
    if record.failure is not None:
        return f"{record.case.rung}: {record.failure.cause}: {record.failure.message}"
    if record.parity.status not in COMPARABLE:
        return f"{record.case.rung} does not compute the same ({record.parity.status})"
    return f"{record.case.rung} was not checked: {record.parity.missing}" if record.parity.missing else ""


def is_impossible(record: Record) -> bool:
    return record.failure is not None and record.failure.cause in IMPOSSIBLE


def _ratios(sides: Sequence[Mapping[int, float]]) -> list[float]:
    """The metric, or its ratio, of each round that all sides have. Zero has no ratio."""
    common = sorted(set.intersection(*(set(side) for side in sides)))
    rows = [[side[index] for side in sides] for index in common]
    return [row[0] / row[1] if len(row) == 2 else row[0] for row in rows if min(row) > 0]


def _newest(points: Points) -> str:
    return max((record.created for point in points.points for record in point.records), default="")
