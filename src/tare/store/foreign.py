"""Points of other tools in the store."""

import re
from collections.abc import Iterable

import msgspec
from sqlalchemy import insert, select

from tare.errors import BadInput, brief
from tare.store import schema
from tare.store.database import Store
from tare.store.importers.point import ForeignPoint
from tare.store.query import named, rows_among

_decoder = msgspec.json.Decoder(ForeignPoint)


def add_foreign(store: Store, points: Iterable[ForeignPoint]) -> int:
    """Adds what is not there yet, all or nothing; how many were new."""
    new = {point.id: point for point in points}
    with store.transaction() as connection:
        column = schema.foreign_points.c.id
        for row in rows_among(connection, select(column), column, list(new)):
            new.pop(row.id)
        if new:
            connection.execute(insert(schema.foreign_points), [_row(point) for point in new.values()])
    return len(new)


def find_foreign(store: Store, words: Iterable[str]) -> list[ForeignPoint]:
    """Points whose name has every word in it, or fits it where it has stars, oldest first.

    A part is enough: other tools' names are long (`benchmarks/test_model.py::test_forward[64]`).
    """
    table = schema.foreign_points
    statement = select(table.c.id, table.c.document).order_by(table.c.created, table.c.id)
    for word in words:
        part = table.c.name.regexp_match(re.escape(word))
        statement = statement.where(named(table.c.name, word) if "*" in word else part)
    found = []
    for row in store.rows(statement):
        try:
            found.append(_decoder.decode(row.document))
        except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
            raise BadInput(f"point {row.id} in {store.where} cannot be read: {brief(error)}") from None
    return found


def _row(point: ForeignPoint) -> dict[str, object]:
    return {
        "id": point.id,
        "source": point.source,
        "name": point.name,
        "created": point.created,
        "document": msgspec.json.encode(point).decode(),
    }
