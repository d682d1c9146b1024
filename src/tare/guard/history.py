"""The series of a case, or of another tool's benchmark, over time: its points and its change points."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import msgspec

from tare.guard.metrics import Metric, values
from tare.records.environment import Environment, difference_lines
from tare.records.record import Record
from tare.stats.changepoints import ChangePoint, every_change, find_change_points, shortest_segment
from tare.store.foreign import ForeignPoint
from tare.system.repository import Repository

MAX_LISTED_CHANGES = 8


class HistoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One record, or one result of another tool. `label` is the commit of the user's project, else that of tare,
    else the version of torch."""

    created: str
    value: float
    label: str
    id: str
    environment: Environment | None = None
    project: Repository | None = None
    # The digest of the code of a user's model.
    source: str | None = None


class HistoryChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change point with its dates and labels: the change came after `after_*` and at the latest with
    `until_*`."""

    position: int
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
    # What differs between the environments of the two points.
    environment_changes: list[str]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One series on one machine. `segments` are (start, stop, first value, last value) of the fit."""

    name: str
    source: str
    metric: str
    unit: str
    place: str
    points: list[HistoryPoint]
    change_points: list[HistoryChange]
    segments: list[tuple[int, int, float, float]]
    noise: float
    correlation: float
    # Records that failed, compute a different result, or lack the metric.
    skipped: int = 0
    min_points: int

    @property
    def long_enough(self) -> bool:
        return len(self.points) >= self.min_points


def record_histories(records: Iterable[Record], metric: Metric) -> list[History]:
    """A history for each family of cases and machine. Within one, software and the source of a user's model may
    change: that is what a history watches."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        machine = msgspec.json.encode(record.environment.machine, order="sorted")
        groups.setdefault((record.case.family, hashlib.sha256(machine).hexdigest()[:12]), []).append(record)
    histories = []
    for (key, place), group in groups.items():
        points = [point for record in group if (point := _point(record, metric))]
        if points:
            exact = metric.exact and _is_exact(group, metric)
            labels = {"name": key, "source": "tare", "metric": metric.name, "unit": metric.unit, "place": place}
            histories.append(make_history(points, exact, skipped=len(group) - len(points), **labels))
    return histories


def foreign_histories(foreign_points: Iterable[ForeignPoint], metric: Metric) -> list[History]:
    """Histories of imported benchmarks. They have one figure, which is shown for gross whatever it measures; one
    in bytes is also shown for host_peak."""
    groups: dict[tuple[str, str, str, str], list[HistoryPoint]] = {}
    for foreign in foreign_points:
        if metric.name == "gross" or (metric.name, foreign.unit) == ("host_peak", "B"):
            environment = Environment(
                machine=foreign.machine, software=foreign.software, flags={}, circumstances={}
            )
            point = HistoryPoint(
                created=foreign.created,
                value=foreign.value,
                label=foreign.commit or "",
                id=foreign.id,
                environment=environment,
            )
            groups.setdefault((foreign.name, foreign.source, foreign.unit, foreign.place), []).append(point)
    return [
        make_history(
            points, name=name, source=source, metric="time" if unit == "s" else "value", unit=unit, place=place
        )
        for (name, source, unit, place), points in groups.items()
    ]


def make_history(points: Iterable[HistoryPoint], exact: bool = False, **labels: Any) -> History:
    """In an `exact` series every change is a change point, and two points are enough. `labels` are the other
    fields of the history."""
    ordered = sorted(points, key=lambda point: (point.created, point.id))
    figures = [point.value for point in ordered]
    segmentation = every_change(figures) if exact else find_change_points(figures)
    return History(
        points=ordered,
        change_points=[_history_change(change, ordered) for change in segmentation.change_points],
        segments=segmentation.segments,
        noise=segmentation.noise,
        correlation=segmentation.correlation,
        min_points=2 if exact else 2 * shortest_segment(len(ordered)),
        **labels,
    )


def _is_exact(group: Sequence[Record], metric: Metric) -> bool:
    """Whether a count is equal in all rounds of each record, as it should be. Zero has no logarithm."""
    counts = [set(values(record, metric).values()) for record in group]
    return all(len(each) <= 1 for each in counts) or any(0 in each for each in counts)


def _history_change(change: ChangePoint, points: Sequence[HistoryPoint]) -> HistoryChange:
    after, until = points[change.earliest - 1], points[change.latest]
    lines: list[str] = []
    if after.environment and until.environment:
        lines = difference_lines(after.environment, until.environment)
    if after.source != until.source:
        lines = [f"the model's code: {after.source} against {until.source}", *lines]
    if len(lines) > MAX_LISTED_CHANGES:
        lines = [*lines[:MAX_LISTED_CHANGES], f"... and {len(lines) - MAX_LISTED_CHANGES} more"]
    return HistoryChange(
        position=change.position,
        earliest=change.earliest,
        latest=change.latest,
        **change.ratio.ratio_fields(),
        before=change.before,
        now=change.after,
        after_date=after.created,
        until_date=until.created,
        after_label=after.label,
        until_label=until.label,
        environment_changes=lines,
    )


def _point(record: Record, metric: Metric) -> HistoryPoint | None:
    """None for a record that failed or computes a different result: it is neither fast nor slow."""
    usable = record.ok and record.parity.status not in ("different", "nan")
    figures = list(values(record, metric).values()) if usable else []
    value = median(figures) if figures else math.nan
    if not (math.isfinite(value) and (value > 0 or (metric.exact and value == 0))):
        return None
    environment, project = record.environment, record.project
    label = environment.circumstances.get("tare_commit") or f"torch {environment.software.get('torch', '?')}"
    return HistoryPoint(
        created=record.created,
        value=value,
        label=str(project) if project else label,
        id=record.id,
        environment=environment,
        project=project,
        source=record.case.source,
    )
