"""Inserts a record: its row, its document, and what the series of its case and machine says of the newest one."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tare.records.record import Record
from tare.store import schema


def insert_record(connection: sa.Connection, record: Record, project: str = "", auxiliary: bool = False) -> None:
    """The records of the auxiliary runs of a check belong to no series: they measured another version, or cases
    that were chosen because they looked slow."""
    row = None if auxiliary else schema.series_row(record, project)
    series = row["id"] if row else None
    connection.execute(sa.insert(schema.records).values(schema.record_row(record, series, project)))
    connection.execute(sa.insert(schema.documents).values(schema.document_row(record)))
    if record.tags:
        tags = [{"record": record.id, "name": name, "value": value} for name, value in record.tags.items()]
        connection.execute(sa.insert(schema.tags), tags)
    if row:
        add_to_series(connection, row, schema.machine_row(record))


def add_to_series(connection: sa.Connection, row: Mapping[str, Any], machine: Mapping[str, Any]) -> None:
    insert_missing(connection, schema.machines, machine)
    table = schema.series
    insert = _insert(connection, table).values(row)
    new, known = insert.excluded, table.c
    newest = {"record", "status", "reason", "parity", "rounds", *schema.FIGURES}
    is_newer = new.last >= known.last
    changed: dict[str, Any] = {name: sa.case((is_newer, new[name]), else_=known[name]) for name in newest}
    changed |= {
        "points": known.points + new.points,
        "first": sa.case((new.first < known.first, new.first), else_=known.first),
        "last": sa.case((is_newer, new.last), else_=known.last),
        "unjudged": sa.true(),
    }
    connection.execute(insert.on_conflict_do_update(index_elements=[known.id], set_=changed))


def insert_missing(connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> bool:
    """Inserts a row unless there is one with its primary key; returns whether it was missing."""
    return connection.execute(_insert(connection, table).values(row).on_conflict_do_nothing()).rowcount > 0


def _insert(connection: sa.Connection, table: sa.Table) -> Any:
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)
