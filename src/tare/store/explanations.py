"""What `tare explain` found of a record, kept beside it. The newest replaces the one before."""

from datetime import UTC, datetime

import sqlalchemy as sa

from tare.store import schema
from tare.store.database import Store


def keep_explanation(store: Store, record: str, document: bytes, trace: bytes | None = None) -> None:
    table = schema.explanations
    values = {
        "record": record,
        "created": datetime.now(UTC).isoformat(timespec="microseconds"),
        "document": document.decode(),
        "trace": trace,
    }
    with store.transaction() as connection:
        connection.execute(sa.delete(table).where(table.c.record == record))
        connection.execute(sa.insert(table).values(values))


def find_explanation(store: Store, record: str) -> str | None:
    table = schema.explanations
    rows = store.rows(sa.select(table.c.document).where(table.c.record == record))
    return str(rows[0].document) if rows else None


def find_trace(store: Store, record: str) -> bytes | None:
    """The trace that an upload brought along, compressed by gzip."""
    table = schema.explanations
    rows = store.rows(sa.select(table.c.trace).where(table.c.record == record))
    return rows[0].trace if rows else None
