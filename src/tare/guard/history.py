"""The series of a case, or of another tool's benchmark, over time: its points and its steps."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from tare.guard.metrics import Metric, values
from tare.records.environment import Environment, difference_lines
from tare.records.record import Record
from tare.stats.changepoints import Course, Step, every_change, find_steps, shortest_plateau
from tare.store.foreign import ForeignPoint

# A step's list of changed software is for reading, not for archiving.
MOST_CHANGES = 8


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One record, or one result of another tool. `label` is its commit, else its version."""

    created: str
    value: float
    label: str
    id: str
    environment: Environment | None = None


class Jump(msgspec.Struct, frozen=True, kw_only=True):
    """A step in words of the series: it came after `after` and at the latest with `until`."""

    at: int
    earliest: int
    latest: int
    # None for a count that was zero before.
    ratio: float | None
    low: float | None
    high: float | None
    before: float
    now: float
    after_date: str
    until_date: str
    after_label: str
    until_label: str
    changed: list[str]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One series on one machine. `pieces` are (start, stop, first value, last value) of what was fitted."""

    name: str
    source: str
    metric: str
    unit: str
    place: str
    points: list[Point]
    steps: list[Jump]
    pieces: list[tuple[int, int, float, float]]
    noise: float
    correlation: float
    # Records that failed, compute something else, or lack the metric.
    left_out: int = 0
    fewest: int

    @property
    def long_enough(self) -> bool:
        return len(self.points) >= self.fewest


def record_histories(records: Iterable[Record], metric: Metric) -> list[History]:
    """A history for each case and machine; software may change within one, that is what is watched."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.case.key, _machine(record.environment)), []).append(record)
    made = []
    for (key, place), group in groups.items():
        points = [point for record in group if (point := _point(record, metric))]
        if points:
            left_out = len(group) - len(points)
            exact = metric.exact and _needs_no_statistics(group, metric)
            made.append(make_history(key, "tare", metric.name, metric.unit, place, points, left_out, exact))
    return made


def _needs_no_statistics(group: Sequence[Record], metric: Metric) -> bool:
    """Whether a count is the same in all rounds of each record, as it should be; zero has no logarithm."""
    found = [set(values(record, metric).values()) for record in group]
    return all(len(each) <= 1 for each in found) or any(0 in each for each in found)


def foreign_histories(found: Iterable[ForeignPoint], metric: Metric) -> list[History]:
    """What was imported has one figure, which stands beside gross whatever it is; bytes are also a peak."""
    groups: dict[tuple[str, str, str, str], list[ForeignPoint]] = {}
    for each in found:
        if metric.name == "gross" or (metric.name, each.unit) == ("host_peak", "B"):
            groups.setdefault((each.name, each.source, each.unit, each.place), []).append(each)
    made = []
    for (name, source, unit, place), group in groups.items():
        points = [
            Point(created=p.created, value=p.value, label=p.commit or "", id=p.id, environment=_environment(p))
            for p in group
        ]
        made.append(make_history(name, source, "time" if unit == "s" else "value", unit, place, points))
    return made


def make_history(
    name: str,
    source: str,
    metric: str,
    unit: str,
    place: str,
    points: Sequence[Point],
    left_out: int = 0,
    exact: bool = False,
) -> History:
    """Of an `exact` series every change is a step, and two points are enough."""
    ordered = sorted(points, key=lambda point: (point.created, point.id))
    figures = [point.value for point in ordered]
    course: Course = every_change(figures) if exact else find_steps(figures)
    return History(
        name=name,
        source=source,
        metric=metric,
        unit=unit,
        place=place,
        points=ordered,
        steps=[_jump(step, ordered) for step in course.steps],
        pieces=course.pieces,
        noise=course.noise,
        correlation=course.correlation,
        left_out=left_out,
        fewest=2 if exact else 2 * shortest_plateau(len(ordered)),
    )


def _jump(step: Step, points: Sequence[Point]) -> Jump:
    after, until = points[step.earliest - 1], points[step.latest]
    changed: list[str] = []
    if after.environment and until.environment:
        changed = difference_lines(after.environment, until.environment)
    if len(changed) > MOST_CHANGES:
        changed = [*changed[:MOST_CHANGES], f"... and {len(changed) - MOST_CHANGES} more"]
    return Jump(
        at=step.at,
        earliest=step.earliest,
        latest=step.latest,
        ratio=_finite(step.ratio.mid),
        low=_finite(step.ratio.low),
        high=_finite(step.ratio.high),
        before=step.before,
        now=step.after,
        after_date=after.created,
        until_date=until.created,
        after_label=after.label,
        until_label=until.label,
        changed=changed,
    )


def _point(record: Record, metric: Metric) -> Point | None:
    """None for what must not be compared: what failed, or computes something else, is neither fast nor slow."""
    found = values(record, metric) if record.ok and record.parity.status not in ("different", "nan") else {}
    value = median(found.values()) if found else math.nan
    if not (math.isfinite(value) and (value > 0 or (metric.exact and value == 0))):
        return None
    environment = record.environment
    label = environment.circumstances.get("tare_commit") or f"torch {environment.software.get('torch', '?')}"
    return Point(created=record.created, value=value, label=label, id=record.id, environment=environment)


def _finite(ratio: float) -> float | None:
    return ratio if math.isfinite(ratio) else None


def _machine(environment: Environment) -> str:
    text = msgspec.json.encode(environment.machine, order="sorted")
    return hashlib.sha256(text).hexdigest()[:12]


def _environment(point: ForeignPoint) -> Environment:
    return Environment(machine=point.machine, software=point.software, flags={}, circumstances={})
