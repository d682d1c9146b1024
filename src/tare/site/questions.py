"""What the pages ask a store. Narrow rows and an index answer every question, whatever the number of records."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from tare.store import schema
from tare.store.database import Store

SERIES, RECORDS, RUNS, MACHINES = schema.series, schema.records, schema.runs, schema.machines
REGRESSIONS = schema.regressions
# The columns of a series by which the pages filter.
FILTERS = ("workload", "rung", "mode", "device", "precision", "machine", "status", "parity")
MOST_SERIES = 2000
COMMIT, COMMIT_PLACE = re.compile(r"[0-9a-f]{7,64}"), "{commit}"


class Scope(NamedTuple):
    """The store, the project that its reader may see (None for all), and the address that shows a commit, with
    {commit} in the place of its hash."""

    store: Store
    project: str | None = None
    commits: str = ""

    def of(self, table: sa.FromClause) -> list[sa.ColumnElement[bool]]:
        return [] if self.project is None else [table.c.project == self.project]

    def commit_address(self, commit: str) -> str:
        """Where a reader sees what a commit changed; empty where nobody has said, or the text is no commit."""
        is_hash = bool(COMMIT.fullmatch(commit))
        return self.commits.replace(COMMIT_PLACE, commit) if self.commits and is_hash else ""

    def rows(self, statement: sa.Select[Any]) -> list[Any]:
        return self.store.rows(statement)


def totals(scope: Scope) -> Mapping[str, Any]:
    """How much there is, and when the newest of it came."""
    columns = SERIES.c
    statement = sa.select(
        sa.func.count().label("series"),
        sa.func.coalesce(sa.func.sum(columns.points), 0).label("records"),
        sa.func.count(sa.distinct(columns.workload)).label("workloads"),
        sa.func.count(sa.distinct(columns.machine)).label("machines"),
        sa.func.max(columns.last).label("last"),
        sa.func.sum(sa.case((columns.unjudged, 1), else_=0)).label("unjudged"),
    ).where(*scope.of(SERIES))
    return dict(scope.rows(statement)[0]._mapping)


def distinct(scope: Scope, column: str) -> list[str]:
    """The values of a filter."""
    chosen = SERIES.c[column]
    return [row[0] for row in scope.rows(sa.select(chosen).distinct().where(*scope.of(SERIES)).order_by(chosen))]


def machine_labels(scope: Scope) -> dict[str, str]:
    """The machines that a reader may see, the one that measured last first."""
    last = (
        sa.select(SERIES.c.machine, sa.func.max(SERIES.c.last).label("last"))
        .where(*scope.of(SERIES))
        .group_by(SERIES.c.machine)
        .subquery()
    )
    statement = sa.select(MACHINES.c.id, MACHINES.c.label).join_from(
        MACHINES, last, last.c.machine == MACHINES.c.id
    )
    return {row.id: row.label for row in scope.rows(statement.order_by(last.c.last.desc(), MACHINES.c.id))}


def series_rows(
    scope: Scope, filters: Mapping[str, str], contains: str = "", limit: int = MOST_SERIES, offset: int = 0
) -> list[Any]:
    """The newest figures of the series that fit, workload by workload."""
    conditions = [*scope.of(SERIES), *(SERIES.c[name] == value for name, value in filters.items() if value)]
    if contains:
        conditions.append(SERIES.c.workload.contains(contains, autoescape=True))
    order = (SERIES.c.workload, SERIES.c.mode, SERIES.c.ladder, SERIES.c.machine, SERIES.c.rung)
    return scope.rows(sa.select(SERIES).where(*conditions).order_by(*order).limit(limit).offset(offset))


def measured_by_both(scope: Scope, a: str, b: str) -> list[Any]:
    """The cases that two machines have measured for a project, with the newest gross of either."""
    one, other = SERIES.alias("a"), SERIES.alias("b")
    same = sa.and_(other.c.family == one.c.family, other.c.project == one.c.project, other.c.machine == b)
    sides = [
        table.c[name].label(f"{side}_{name}")
        for side, table in (("a", one), ("b", other))
        for name in ("id", "gross", "parity")
    ]
    statement = sa.select(one.c.workload, one.c.rung, one.c.ladder, *sides).join_from(one, other, same)
    return scope.rows(statement.where(one.c.machine == a, one.c.gross > 0, other.c.gross > 0, *scope.of(one)))


def ladder_keys(
    scope: Scope, filters: Mapping[str, str], contains: str, limit: int, offset: int
) -> list[tuple[str, str]]:
    """The ladders that fit, as pairs of a key and a machine."""
    conditions = [*scope.of(SERIES), *(SERIES.c[name] == value for name, value in filters.items() if value)]
    if contains:
        conditions.append(SERIES.c.workload.contains(contains, autoescape=True))
    columns = (SERIES.c.workload, SERIES.c.ladder, SERIES.c.machine)
    statement = sa.select(*columns).distinct().where(*conditions).order_by(*columns).limit(limit).offset(offset)
    return [(row.ladder, row.machine) for row in scope.rows(statement)]


def rows_of_ladders(scope: Scope, keys: Sequence[tuple[str, str]], filters: Mapping[str, str]) -> list[Any]:
    if not keys:
        return []
    chosen = SERIES.c.ladder.in_(sorted({ladder for ladder, _ in keys}))
    others = [SERIES.c[name] == value for name, value in filters.items() if value]
    wanted = set(keys)
    rows = scope.rows(sa.select(SERIES).where(*scope.of(SERIES), chosen, *others).order_by(SERIES.c.ladder))
    return [row for row in rows if (row.ladder, row.machine) in wanted]


def workloads(scope: Scope, contains: str = "") -> list[Any]:
    """Each workload with what there is of it."""
    columns = SERIES.c
    statement = sa.select(
        columns.workload,
        sa.func.count().label("series"),
        sa.func.sum(columns.points).label("records"),
        sa.func.count(sa.distinct(columns.rung)).label("rungs"),
        sa.func.count(sa.distinct(columns.machine)).label("machines"),
        sa.func.max(columns.last).label("last"),
    ).where(*scope.of(SERIES))
    if contains:
        statement = statement.where(columns.workload.contains(contains, autoescape=True))
    return scope.rows(statement.group_by(columns.workload).order_by(columns.workload))


def one_series(scope: Scope, id_: str) -> Any | None:
    return next(iter(scope.rows(sa.select(SERIES).where(SERIES.c.id == id_, *scope.of(SERIES)))), None)


def series_of_ladder(scope: Scope, row: Any) -> list[Any]:
    """All rungs of the ladder and machine that a series belongs to."""
    same = (SERIES.c.ladder == row.ladder, SERIES.c.machine == row.machine, SERIES.c.project == row.project)
    return scope.rows(sa.select(SERIES).where(*same).order_by(SERIES.c.rung))


def points_of(scope: Scope, series: str, limit: int) -> list[Any]:
    """The newest points of a series, oldest first."""
    statement = sa.select(RECORDS).where(RECORDS.c.series == series, *scope.of(RECORDS))
    newest = scope.rows(statement.order_by(RECORDS.c.created.desc(), RECORDS.c.id).limit(limit))
    return newest[::-1]


def one_record_row(scope: Scope, id_: str) -> Any | None:
    return next(iter(scope.rows(sa.select(RECORDS).where(RECORDS.c.id == id_, *scope.of(RECORDS)))), None)


def runs(scope: Scope, limit: int, offset: int = 0) -> list[Any]:
    """The newest runs, with how many records each has."""
    newest = sa.select(RUNS).where(*scope.of(RUNS)).order_by(RUNS.c.created.desc()).limit(limit).offset(offset)
    chosen = newest.subquery()
    ids = sa.select(chosen.c.id)
    counted = (
        sa.select(
            RECORDS.c.run,
            sa.func.count().label("records"),
            sa.func.sum(sa.case((RECORDS.c.status == "ok", 1), else_=0)).label("good"),
        )
        .where(RECORDS.c.run.in_(ids))
        .group_by(RECORDS.c.run)
        .subquery()
    )
    statement = sa.select(chosen, counted.c.records, counted.c.good).join_from(
        chosen, counted, counted.c.run == chosen.c.id, isouter=True
    )
    return scope.rows(statement.order_by(chosen.c.created.desc()))


def one_run(scope: Scope, id_: str) -> Any | None:
    return next(iter(scope.rows(sa.select(RUNS).where(RUNS.c.id == id_, *scope.of(RUNS)))), None)


def records_of_run(scope: Scope, run: str, limit: int, offset: int) -> list[Any]:
    statement = sa.select(RECORDS).where(RECORDS.c.run == run, *scope.of(RECORDS))
    return scope.rows(statement.order_by(RECORDS.c.workload, RECORDS.c.key).limit(limit).offset(offset))


def regressions(
    scope: Scope,
    state: str = "",
    days: int | None = None,
    workload: str = "",
    series: str = "",
    limit: int = 500,
    owner: str = "",
    offset: int = 0,
) -> list[Any]:
    """Regressions with the columns of their series, the newest first."""
    named = [REGRESSIONS.c[name] for name in REGRESSIONS.c.keys()]  # noqa: SIM118 - a collection of columns
    of_series = [SERIES.c[name] for name in ("workload", "rung", "mode", "device", "machine", "family", "project")]
    statement = sa.select(*named, *of_series).join_from(REGRESSIONS, SERIES, SERIES.c.id == REGRESSIONS.c.series)
    conditions = scope.of(SERIES)
    if state:
        conditions.append(REGRESSIONS.c.state == state)
    if days is not None:
        since = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")
        conditions.append(REGRESSIONS.c.found >= since)
    if workload:
        conditions.append(SERIES.c.workload == workload)
    if series:
        conditions.append(REGRESSIONS.c.series == series)
    if owner:
        conditions.append(REGRESSIONS.c.owner == owner)
    order = (REGRESSIONS.c.found.desc(), REGRESSIONS.c.ratio.desc(), REGRESSIONS.c.id)
    return scope.rows(statement.where(*conditions).order_by(*order).limit(limit).offset(offset))


def one_regression(scope: Scope, id_: str) -> Any | None:
    named = [REGRESSIONS.c[name] for name in REGRESSIONS.c.keys()]  # noqa: SIM118 - as above
    of_series = [SERIES.c[name] for name in ("workload", "rung", "mode", "device", "machine", "family", "project")]
    statement = sa.select(*named, *of_series).join_from(REGRESSIONS, SERIES, SERIES.c.id == REGRESSIONS.c.series)
    return next(iter(scope.rows(statement.where(REGRESSIONS.c.id == id_, *scope.of(SERIES)))), None)


def machines(scope: Scope) -> list[Any]:
    """Each machine with what it has measured."""
    columns = SERIES.c
    counted = (
        sa.select(
            columns.machine,
            sa.func.count().label("series"),
            sa.func.sum(columns.points).label("records"),
            sa.func.count(sa.distinct(columns.workload)).label("workloads"),
            sa.func.min(columns.first).label("first"),
            sa.func.max(columns.last).label("last"),
        )
        .where(*scope.of(SERIES))
        .group_by(columns.machine)
        .subquery()
    )
    statement = sa.select(MACHINES, *[each for each in counted.c if each.name != "machine"]).join_from(
        MACHINES, counted, counted.c.machine == MACHINES.c.id
    )
    return scope.rows(statement.order_by(counted.c.last.desc()))


def coverage(scope: Scope, machine: str, mode: str) -> list[Any]:
    """For each workload and rung how the newest records of its series ended, with an example of each reason."""
    columns = SERIES.c
    conditions = [*scope.of(SERIES)]
    conditions += [columns.machine == machine] if machine else []
    conditions += [columns.mode == mode] if mode else []
    statement = (
        sa.select(
            columns.workload,
            columns.rung,
            columns.status,
            columns.parity,
            sa.func.count().label("series"),
            sa.func.max(columns.reason).label("reason"),
            sa.func.max(columns.record).label("record"),
        )
        .where(*conditions)
        .group_by(columns.workload, columns.rung, columns.status, columns.parity)
        .order_by(columns.workload, columns.rung)
    )
    return scope.rows(statement)


class SearchHit(NamedTuple):
    """Something that a search found: what kind of thing, its page, and how it is called."""

    kind: str
    path: str
    text: str


def search(scope: Scope, text: str, most: int = 50) -> list[SearchHit]:
    text = text.strip()
    if not text:
        return []
    found = [
        SearchHit("workload", f"workloads/{row.workload}/", row.workload) for row in workloads(scope, text)[:most]
    ]
    if record := one_record_row(scope, text):
        found.insert(0, SearchHit("record", f"records/{record.id}/", record.key))
    if run := one_run(scope, text):
        found.insert(0, SearchHit("run", f"runs/{run.id}/", run.name))
    if one_regression(scope, text):
        found.insert(0, SearchHit("regression", f"regressions/{text}/", text))
    if len(text) >= 6 and all(character in "0123456789abcdef" for character in text):
        statement = sa.select(RECORDS.c.id, RECORDS.c.key, RECORDS.c.commit)
        begins = (RECORDS.c.commit >= text, RECORDS.c.commit < text + "g")
        for row in scope.rows(statement.where(*begins, *scope.of(RECORDS)).limit(most)):
            found.append(SearchHit(f"commit {row.commit[:10]}", f"records/{row.id}/", row.key))
    labels = machine_labels(scope).items()
    found += [
        SearchHit("machine", f"machines/{id_}/", label) for id_, label in labels if text.lower() in label.lower()
    ]
    return found[:most]
