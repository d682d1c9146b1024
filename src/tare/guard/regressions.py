"""Finds regressions: change points in the series of a store, and what a check has confirmed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from tare.guard.changes import CaseChange, MetricChange, Report
from tare.guard.metrics import get_metric
from tare.stats.changepoints import ChangePoint, find_change_points, shortest_segment
from tare.store import schema
from tare.store.database import Store
from tare.store.regressions import Regression, now, regressions_of, save

# The metrics of which a record's row has the figure.
COLUMNS = {"gross": "gross", "latency": "latency", "host_peak": "host_bytes", "device_peak": "device_bytes"}
# Series that are judged in one go, and the newest points of each that are looked at.
PORTION, MOST_POINTS = 50, 1000


class _Point(NamedTuple):
    record: str
    created: str
    label: str
    value: float


def judge_series(store: Store, most: int = PORTION) -> int:
    """Searches series that have new points for change points; returns how many it has judged. A change point is no
    proof: of a hundred series without a change about one has one (docs/history.md)."""
    table = schema.series
    columns = (table.c.id, table.c.points, table.c.last)
    waiting = sa.select(*columns).where(table.c.unjudged).order_by(table.c.last.desc()).limit(most)
    series = store.rows(waiting)
    for each in series:
        found = [regression for metric in COLUMNS for regression in _search(store, each.id, metric)]
        _keep(store, each.id, found)
        unchanged = sa.and_(table.c.id == each.id, table.c.points == each.points, table.c.last == each.last)
        with store.transaction() as connection:
            connection.execute(sa.update(table).where(unchanged).values(unjudged=False))
    return len(series)


def _search(store: Store, series: str, metric: str) -> list[Regression]:
    points = _points(store, series, metric)
    if len(points) < 2 * shortest_segment(len(points)):
        return []
    margin = get_metric(metric).margin
    changes = find_change_points([point.value for point in points]).change_points
    found = []
    for place, change in enumerate(changes):
        if change.ratio.low <= 1 + margin:
            continue
        later = [other.after for other in changes[place + 1 :]]
        is_fixed = any(level <= change.before * (1 + margin) for level in later)
        found.append(_regression(series, metric, points, change, is_fixed))
    return found


def _points(store: Store, series: str, metric: str) -> list[_Point]:
    columns = schema.records.c
    figure = columns[COLUMNS[metric]]
    usable = (columns.series == series, columns.status == "ok", columns.parity.not_in(("different", "nan")))
    statement = (
        sa.select(columns.id, columns.created, columns.commit, columns.torch, figure.label("value"))
        .where(*usable, figure > 0)
        .order_by(columns.created.desc(), columns.id)
        .limit(MOST_POINTS)
    )
    return [_Point(row.id, row.created, _label(row), row.value) for row in reversed(store.rows(statement))]


def _label(row: Any) -> str:
    """The versions that a point was measured with: the user's, and torch's."""
    parts = (row.commit[:10], f"torch {row.torch}" if row.torch else "")
    return " · ".join(filter(None, parts))


def _regression(
    series: str, metric: str, points: Sequence[_Point], change: ChangePoint, is_fixed: bool
) -> Regression:
    before, after = points[change.earliest - 1], points[change.latest]
    return Regression(
        series=series,
        metric=metric,
        source="history",
        found=now(),
        before_record=before.record,
        after_record=after.record,
        before_date=before.created,
        after_date=after.created,
        before_label=before.label,
        after_label=after.label,
        before=change.before,
        after=change.after,
        ratio=change.ratio.mid,
        low=change.ratio.low,
        high=change.ratio.high,
        state="fixed" if is_fixed else "open",
    )


def _keep(store: Store, series: str, found: Sequence[Regression]) -> None:
    """One that is found again, perhaps a point earlier or later, stays the same regression. One that more points
    have refuted goes, unless somebody has written about it."""
    known = {id_: each for id_, each in regressions_of(store, series).items() if each.source == "history"}
    with store.transaction() as connection:
        for regression in found:
            same = (
                id_ for id_, old in known.items() if old.metric == regression.metric and old.overlaps(regression)
            )
            id_ = next(same, "")
            known.pop(id_, None)
            save(connection, regression, id_)
        for id_, old in known.items():
            has_notes = connection.scalar(
                sa.select(schema.notes.c.id).where(schema.notes.c.regression == id_).limit(1)
            )
            if old.state == "open" and not old.owner and not has_notes:
                connection.execute(sa.delete(schema.regressions).where(schema.regressions.c.id == id_))


def record_report(store: Store, report: Report, project: str = "") -> list[Regression]:
    """Keeps what a check has confirmed; returns it."""
    confirmed = [
        regression
        for case in report.cases
        for change in case.regressions
        if change.stage == "confirmed" or change.exact
        if (regression := _confirmed(store, case, change, project))
    ]
    with store.transaction() as connection:
        for regression in confirmed:
            save(connection, regression)
    return confirmed


def _confirmed(store: Store, case: CaseChange, change: MetricChange, project: str) -> Regression | None:
    columns = schema.records.c
    found = {record.id: record for record in store.find(columns.id.in_(case.records))}
    if len(case.records) != 2 or len(found) != 2:
        return None
    before, after = (found[id_] for id_ in case.records)
    rows = {row.id: row for row in store.rows(sa.select(schema.records).where(columns.id.in_(case.records)))}
    return Regression(
        series=schema.series_id(project, case.case, schema.machine_id(after)),
        metric=change.metric,
        source="check",
        found=now(),
        before_record=before.id,
        after_record=after.id,
        before_date=before.created,
        after_date=after.created,
        before_label=_label(rows[before.id]),
        after_label=_label(rows[after.id]),
        before=change.a,
        after=change.b,
        ratio=change.ratio,
        low=change.low,
        high=change.high,
    )
