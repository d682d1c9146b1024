"""Baselines: names for sets of records, in the store beside them."""

import re
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import delete, func, insert, select

from tare.errors import BadInput, unknown
from tare.records.record import Record
from tare.store import schema
from tare.store.database import Store

# A name must not look like a file, an id, a query or an option.
NAME = r"[A-Za-z_][A-Za-z0-9_.\-]{0,79}"


class Baseline(NamedTuple):
    name: str
    created: str
    records: int


def set_baseline(store: Store, name: str, records: list[Record]) -> bool:
    """Names these records, in one transaction; returns whether the name was in use before."""
    if not re.fullmatch(NAME, name) or name.endswith((".json", ".gz")) or name == "newest":
        raise BadInput(
            f"'{name[:80]}' is not a valid baseline name: use letters, digits, '_', '-' and '.', a letter first; "
            "'newest' means the newest run"
        )
    if not records:
        raise BadInput(f"baseline '{name}' would hold no record")
    stored = store.known_ids(record.id for record in records)
    if missing := [record.id for record in records if record.id not in stored]:
        raise BadInput(
            f"a baseline names records in the store, and {missing[0]} is not in {store.where}: tare import its"
            " file first, or compare with the file directly"
        )
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
    names, members = schema.baselines.c, schema.baseline_records.c
    statement = (
        select(names.name, names.created, func.count(members.record).label("records"))
        .join(schema.baseline_records, members.baseline == names.name, isouter=True)
        .group_by(names.name, names.created)
        .order_by(names.name)
    )
    return [Baseline(row.name, row.created, row.records) for row in store.rows(statement)]


def get_baseline(store: Store, name: str) -> list[Record]:
    """The records of a baseline, oldest first; BadInput with the valid names if it does not exist."""
    members, columns = schema.baseline_records.c, schema.records.c
    records = store.find(columns.id.in_(select(members.record).where(members.baseline == name)))
    if not records:
        names = [baseline.name for baseline in list_baselines(store)]
        if name in names:
            raise BadInput(f"the records of baseline '{name}' are no longer in {store.where}")
        raise unknown("baseline", name, names, store.where)
    return records


def remove_baseline(store: Store, name: str) -> None:
    """Removes the name; the records stay."""
    with store.transaction() as connection:
        removed = connection.execute(delete(schema.baselines).where(schema.baselines.c.name == name)).rowcount
        connection.execute(delete(schema.baseline_records).where(schema.baseline_records.c.baseline == name))
    if not removed:
        raise unknown("baseline", name, [baseline.name for baseline in list_baselines(store)], store.where)
