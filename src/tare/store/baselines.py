"""Baselines: names for sets of records, in the store beside them."""

import re
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import delete, func, insert, select

from tare.errors import BadInput, unknown
from tare.records.codec import decode_record
from tare.records.record import Record
from tare.store import schema
from tare.store.database import Store

# A name that is no file, no id, no query and no option.
NAME = r"[A-Za-z_][A-Za-z0-9_.\-]{0,79}"


class Baseline(NamedTuple):
    name: str
    created: str
    records: int


def set_baseline(store: Store, name: str, records: list[Record]) -> bool:
    """Names these records, in one transaction; returns whether the name stood for something else before."""
    if not re.fullmatch(NAME, name) or name.endswith((".json", ".gz")) or name == "newest":
        raise BadInput(
            f"'{name[:80]}' is no name for a baseline: letters, digits, '_', '-' and '.', a letter first; "
            "'newest' is the newest run"
        )
    if not records:
        raise BadInput(f"baseline '{name}' would hold no record")
    with store.transaction() as connection:
        replaced = connection.execute(delete(schema.baselines).where(schema.baselines.c.name == name)).rowcount > 0
        connection.execute(delete(schema.baseline_records).where(schema.baseline_records.c.baseline == name))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        connection.execute(insert(schema.baselines).values(name=name, created=now))
        connection.execute(
            insert(schema.baseline_records), [{"baseline": name, "record": record.id} for record in records]
        )
    return bool(replaced)


def list_baselines(store: Store) -> list[Baseline]:
    named, held = schema.baselines.c, schema.baseline_records.c
    statement = (
        select(named.name, named.created, func.count(held.record).label("records"))
        .join(schema.baseline_records, held.baseline == named.name, isouter=True)
        .group_by(named.name, named.created)
        .order_by(named.name)
    )
    return [Baseline(row.name, row.created, row.records) for row in store.rows(statement)]


def get_baseline(store: Store, name: str) -> list[Record]:
    """Its records, oldest first; BadInput with the names there are."""
    held, kept = schema.baseline_records.c, schema.records.c
    statement = (
        select(kept.id, kept.document)
        .join(schema.baseline_records, held.record == kept.id)
        .where(held.baseline == name)
        .order_by(kept.created, kept.id)
    )
    rows = store.rows(statement)
    if not rows:
        names = [one.name for one in list_baselines(store)]
        if name in names:
            raise BadInput(f"the records of baseline '{name}' are no longer in {store.where}")
        raise unknown("baseline", name, names, store.where)
    return [decode_record(row.document, f"record {row.id} in {store.where}") for row in rows]


def remove_baseline(store: Store, name: str) -> None:
    """Forgets the name; the records stay."""
    with store.transaction() as connection:
        gone = connection.execute(delete(schema.baselines).where(schema.baselines.c.name == name)).rowcount
        connection.execute(delete(schema.baseline_records).where(schema.baseline_records.c.baseline == name))
    if not gone:
        raise unknown("baseline", name, [one.name for one in list_baselines(store)], store.where)
