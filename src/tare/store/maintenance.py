"""Looking after a store: checking it, copying it to another, and dropping old samples."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import sqlalchemy as sa

from tare.errors import BadInput
from tare.records.codec import decode_record, encode
from tare.records.record import Record
from tare.records.thinning import thin
from tare.store import schema
from tare.store.database import PORTION, Store, portions
from tare.store.insert import insert_missing

# Hears how many records are done.
OnDone = Callable[[int], None]
# What a record's row has that is not in the record.
GIVEN = ("series", "project")
# What a copy takes along, in this order: a record that is there has its document.
COPIED = ("runs", "rounds", "documents", "records", "tags", "machines", "series", "explanations", "baselines",
          "baseline_records", "foreign_points", "regressions", "notes")  # fmt: skip


class StoreProblem(NamedTuple):
    """What is wrong with a record, a series or a baseline, and whether a repair can mend it."""

    subject: str
    text: str
    mendable: bool = False


def count_records(store: Store) -> int:
    return int(store.rows(sa.select(sa.func.count()).select_from(schema.records))[0][0])


def check_store(store: Store, on_done: OnDone = lambda _: None) -> Iterator[StoreProblem]:
    """Reads every record, and compares it with what the tables say of it."""
    records, documents, series = schema.records, schema.documents, schema.series
    columns: list[Any] = [column for column in records.c if column.name not in GIVEN]
    statement = sa.select(*columns, documents.c.document).join_from(
        records, documents, documents.c.record == records.c.id, isouter=True
    )
    for row in store.stream(statement):
        on_done(1)
        if row.document is None:
            yield StoreProblem(f"record {row.id}", "it has no document")
            continue
        try:
            record = decode_record(row.document, f"record {row.id}")
        except BadInput as error:
            yield StoreProblem(f"record {row.id}", str(error))
            continue
        expected = schema.record_row(record)
        wrong = [column.name for column in columns if getattr(row, column.name) != expected[column.name]]
        if wrong:
            yield StoreProblem(
                f"record {row.id}", f"its row differs from its document in {', '.join(wrong)}", True
            )
    orphans = sa.select(documents.c.record).where(documents.c.record.not_in(sa.select(records.c.id)))
    for row in store.stream(orphans):
        yield StoreProblem(f"document {row.record}", "it belongs to no record")
    counted = (
        sa.select(records.c.series, sa.func.count().label("points"), sa.func.max(records.c.created).label("last"))
        .group_by(records.c.series)
        .subquery()
    )
    joined = sa.select(series.c.id, series.c.points, series.c.last, counted.c.points, counted.c.last).join_from(
        series, counted, series.c.id == counted.c.series, isouter=True
    )
    for id_, points, last, actual, newest in store.stream(joined):
        if (points, last) != (actual or 0, newest):
            yield StoreProblem(
                f"series {id_}", f"it says {points} records until {last}, and has {actual or 0}", True
            )
    members = schema.baseline_records.c
    for row in store.stream(
        sa.select(members.baseline, members.record).where(members.record.not_in(sa.select(records.c.id)))
    ):
        yield StoreProblem(f"baseline {row.baseline}", f"its record {row.record} is not in the store")


def repair(store: Store, on_done: OnDone = lambda _: None) -> None:
    """Writes the rows anew from the documents, which are not changed."""
    documents = schema.documents.c
    # In portions, because SQLite has no reader beside a large write.
    statement = sa.select(documents.record, documents.document).order_by(documents.record).limit(PORTION)
    last = ""
    while rows := store.rows(statement.where(documents.record > last)):
        last = rows[-1].record
        with store.transaction() as connection:
            for row in rows:
                with suppress(BadInput):
                    record = decode_record(row.document, f"record {row.record}")
                    values = schema.record_row(record)
                    del values["id"], values["series"], values["project"]
                    connection.execute(
                        sa.update(schema.records).where(schema.records.c.id == record.id).values(values)
                    )
        on_done(len(rows))
    renew_series(store)


def renew_series(store: Store, chosen: Sequence[str] | None = None) -> None:
    """Derives what the series (all, or the chosen ones) say of their records from the records."""
    columns, series = schema.records.c, schema.series
    first_and_last = (sa.func.min(columns.created), sa.func.max(columns.created))
    of_series = sa.select(columns.series, sa.func.count(), *first_and_last)
    known = sa.select(series.c.id)
    ids = [row.id for row in store.rows(known if chosen is None else known.where(series.c.id.in_(chosen)))]
    for portion in portions(ids):
        counted = store.rows(of_series.where(columns.series.in_(portion)).group_by(columns.series))
        with store.transaction() as connection:
            empty = set(portion) - {row[0] for row in counted}
            connection.execute(sa.delete(series).where(series.c.id.in_(empty)))
            for id_, points, first, last in counted:
                newest = connection.execute(
                    sa.select(schema.records, schema.documents.c.document)
                    .join_from(schema.records, schema.documents, schema.documents.c.record == columns.id)
                    .where(columns.series == id_, columns.created == last)
                    .order_by(columns.id.desc())
                    .limit(1)
                ).one()
                record = decode_record(newest.document, f"record {newest.id} in {store.where}")
                row = schema.series_row(record, "")
                for name in ("id", "project", "unjudged"):
                    del row[name]
                row |= {"points": points, "first": first, "last": last}
                connection.execute(sa.update(series).where(series.c.id == id_).values(row))


def copy_store(source: Store, target: Store, on_done: OnDone = lambda _: None) -> int:
    """Copies what the other store does not have yet; returns how many records were new there. An interrupted copy
    is simply started again."""
    new = 0
    for name in COPIED:
        table = schema.metadata.tables[name]
        for portion in portions(source.stream(sa.select(table))):
            rows = [dict(row._mapping) for row in portion]
            with target.transaction() as connection:
                copied = sum(insert_missing(connection, table, row) for row in rows)
            if name == "records":
                new += copied
                on_done(len(rows))
    renew_series(target)
    return new


def drop_samples(store: Store, before: str, on_done: OnDone = lambda _: None) -> int:
    """Thins the records from before a moment (see tare.records.thinning); returns how many were thinned."""
    records, documents = schema.records.c, schema.documents.c
    statement = (
        sa.select(records.id, documents.document)
        .join_from(schema.records, schema.documents, records.id == documents.record)
        .where(records.created < before, sa.not_(documents.thinned))
        .limit(PORTION)
    )
    thinned = 0
    while rows := store.rows(statement):
        with store.transaction() as connection:
            for row in rows:
                record = decode_record(row.document, f"record {row.id} in {store.where}")
                values = {**schema.document_row(thin(record)), "thinned": True}
                connection.execute(sa.update(schema.documents).where(documents.record == row.id).values(values))
        thinned += len(rows)
        on_done(len(rows))
    return thinned


def drop_finished_rounds(store: Store) -> int:
    """Rounds of runs that are complete: a record holds what was measured."""
    finished = sa.select(schema.runs.c.id).where(schema.runs.c.finished)
    with store.transaction() as connection:
        return connection.execute(sa.delete(schema.rounds).where(schema.rounds.c.run.in_(finished))).rowcount


def give_back_space(store: Store) -> None:
    """What was removed is returned to the file system."""
    with store.engine.connect() as connection:
        raw = connection.execution_options(isolation_level="AUTOCOMMIT")
        if store.is_file:
            # SQLite refuses to do it within the transaction that our engine begins.
            assert raw.connection.driver_connection is not None
            raw.connection.driver_connection.execute("VACUUM")
        else:
            raw.exec_driver_sql("VACUUM ANALYZE")


def exported_lines(records: Iterable[Record], on_done: OnDone = lambda _: None) -> Iterator[bytes]:
    """A record a line."""
    for record in records:
        yield encode(record) + b"\n"
        on_done(1)
