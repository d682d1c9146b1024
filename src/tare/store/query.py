"""Queries as a user writes them: a key, the beginning of one, a record's id, a workload, or field=value."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

from sqlalchemy import ColumnElement, Connection, Row, Select, func, or_

from tare.cases.case import Feed, Layout, Mode, Optimizer, Precision
from tare.errors import BadInput, quote, unknown
from tare.store.schema import records

# A database takes a limited number of values in one statement.
PIECE = 500
NUMBERS = ("batch", "threads")
# The fields whose values are known beforehand; a rung or a status may come from a plug-in.
CLOSED: dict[str, tuple[str, ...]] = {
    "mode": get_args(Mode),
    "precision": get_args(Precision),
    "feed": get_args(Feed),
    "layout": get_args(Layout),
    "optimizer": get_args(Optimizer),
}
FIELDS = (
    "workload", "rung", "mode", "device", "precision", "batch", "feed", "layout", "optimizer", "threads",
    "status", "parity", "environment", "run", "id",
)  # fmt: skip


class Query(NamedTuple):
    """All conditions must hold; the values within one are alternatives."""

    words: tuple[str, ...] = ()
    fields: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def apply(self, statement: Select[Any]) -> Select[Any]:
        for word in self.words:
            statement = statement.where(_word(word))
        for name, values in self.fields:
            statement = statement.where(_field(name, values))
        return statement.order_by(records.c.created, records.c.id)


def parse_query(terms: list[str], size_names: set[str]) -> Query:
    """Terms from the command line; unknown fields are refused with the valid ones."""
    words, fields = [], []
    for term in terms:
        if not term.isprintable():
            # No record holds such a text, and half a character cannot even be sent to a database.
            raise BadInput(f"{quote(term)} is not the text of a key, an id or a field")
        name, equals, value = term.partition("=")
        if "/" in term or not equals or not may_be_field(name):
            words.append(term)
            continue
        if name not in FIELDS and name not in size_names:
            raise unknown("field", name, {*FIELDS, *size_names})
        values = tuple(part for part in value.split(",") if part)
        if not values:
            raise BadInput(f"'{term}' names no value: write {name}=VALUE")
        for part in values:
            if name in CLOSED and part not in CLOSED[name]:
                raise unknown(name, part, CLOSED[name])
        if name in NUMBERS or name in size_names:
            for part in values:
                # At most 18 digits: a database's integer has 64 bits.
                if not re.fullmatch(r"[0-9]{1,18}", part):
                    raise BadInput(f"{name} is a whole number, not '{part[:40]}'")
        fields.append((name, values))
    return Query(tuple(words), tuple(fields))


def may_be_field(name: str) -> bool:
    """Whether what stands before an equals sign can be a field's name. That of a benchmark (`test_x[n=4]`) or of a
    pattern (`*batch=8*`) has characters that no field has."""
    return re.search(r"[^A-Za-z0-9_.\- ]", name) is None


def rows_among(
    connection: Connection, statement: Select[Any], column: ColumnElement[str], values: Sequence[str]
) -> list[Row[Any]]:
    """The rows in which the column has one of the values, however many these are."""
    pieces = (values[at : at + PIECE] for at in range(0, len(values), PIECE))
    return [row for piece in pieces for row in connection.execute(statement.where(column.in_(piece)))]


def named(column: ColumnElement[str], word: str) -> ColumnElement[bool]:
    """Whether a text is this word, begins with it up to a slash, or fits it where it has stars.

    Not by LIKE, for which capitals count in some databases and not in SQLite.
    """
    if "*" in word:
        pattern = ".*".join(re.escape(part) for part in re.split(r"\*+", word))
        return column.regexp_match(f"^{pattern}$")
    start = word.rstrip("/") + "/"
    return or_(column == word, func.substr(column, 1, len(start)) == start)


def _word(word: str) -> ColumnElement[bool]:
    return or_(named(records.c.key, word), records.c.id == word, records.c.run == word)


def _field(name: str, values: tuple[str, ...]) -> ColumnElement[bool]:
    if name in NUMBERS:
        return records.c[name].in_([int(v) for v in values])
    if name in FIELDS:
        return records.c[name].in_(values)
    size: ColumnElement[int] = records.c.sizes[name].as_integer()
    return size.in_([int(v) for v in values])
