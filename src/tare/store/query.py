"""Queries: terms that choose among records, in a store and in a file alike.

A term is a key, the beginning of a key, a pattern with stars, the id of a record or a run, or FIELD=VALUE. A field
belongs to the case, the record or the environment. docs/records.md has the grammar.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, or_

from tare.cases.case import CHOICES, COUNTS, key_matches
from tare.errors import BadInput, quote, unknown
from tare.records.environment import Environment
from tare.records.record import Record
from tare.store.schema import FIELDS, index_columns, records

ENVIRONMENT_GROUPS = ("circumstances", "flags", "machine", "software")


class Matches(NamedTuple):
    """The records of a query, and the environment's fields that it names, such as `software.torch`."""

    records: list[Record]
    environment_fields: frozenset[str] = frozenset()


class Query(NamedTuple):
    """All terms must hold; the values within one term are alternatives. `other_fields` are sizes and fields of the
    environment: which ones exist depends on the records."""

    words: tuple[str, ...] = ()
    fields: tuple[tuple[str, tuple[str | int, ...]], ...] = ()
    other_fields: tuple[tuple[str, str], ...] = ()

    def conditions(self) -> list[ColumnElement[bool]]:
        """What a database can check before a record is decoded. It may let too many records through: LIKE ignores
        case in SQLite. `select` decides."""
        words = [or_(_like(word), records.c.id == word, records.c.run == word) for word in self.words]
        return [*words, *(records.c[name].in_(values) for name, values in self.fields)]

    def select(self, candidates: Iterable[Record]) -> Matches:
        """The records for which all terms hold; BadInput for a field that none of them has."""
        selected = [record for record in candidates if self._matches(record)]
        environment_fields: set[str] = set()
        for name, value in self.other_fields:
            named = {field for record in selected for field in _environment_fields(record.environment, name)}
            if selected and not named and not any(name in record.case.sizes for record in selected):
                raise _unknown_field(name, selected)
            selected = [record for record in selected if _other_field_matches(record, name, value)]
            environment_fields |= named
        return Matches(selected, frozenset(environment_fields))

    def _matches(self, record: Record) -> bool:
        if not all(word in (record.id, record.run) or key_matches(record.case.key, word) for word in self.words):
            return False
        row = index_columns(record) if self.fields else {}
        return all(row[name] in values for name, values in self.fields)


def parse_query(terms: Sequence[str]) -> Query:
    """BadInput for a value that its field cannot have."""
    words: list[str] = []
    fields: list[tuple[str, tuple[str | int, ...]]] = []
    other_fields: list[tuple[str, str]] = []
    for term in terms:
        if not term.isprintable():
            # No record contains such a text, and a lone surrogate cannot be sent to a database.
            raise BadInput(f"{quote(term)} is not the text of a key, an id or a field")
        name, equals, value = term.partition("=")
        if not equals or not may_be_field(name):
            words.append(term)
            continue
        values = [part for part in value.split(",") if part]
        if not values:
            raise BadInput(f"'{term}' names no value: write {name}=VALUE")
        if name not in FIELDS:
            other_fields.append((name, value))
        elif name in COUNTS:
            fields.append((name, tuple(_whole_numbers(name, value))))
        else:
            for part in values:
                if name in CHOICES and part not in CHOICES[name]:
                    raise unknown(name, part, CHOICES[name])
            fields.append((name, tuple(values)))
    return Query(tuple(words), tuple(fields), tuple(other_fields))


def may_be_field(name: str) -> bool:
    """Whether the text before an equals sign can be the name of a field. The names of benchmarks (`test_x[n=4]`),
    keys and patterns (`*batch=8*`) have characters that no field has."""
    return re.search(r"[^A-Za-z0-9_.\- ]", name) is None


def _whole_numbers(name: str, value: str) -> list[int]:
    parts = [part for part in value.split(",") if part]
    for part in parts:
        # At most 18 digits: an integer of a database has 64 bits.
        if not re.fullmatch(r"[0-9]{1,18}", part):
            raise BadInput(f"{name} is a whole number, not '{part[:40]}'")
    return [int(part) for part in parts]


def _like(word: str) -> ColumnElement[bool]:
    """The key begins with the word, or fits it where it has stars."""
    parts = [re.sub(r"([\\%_])", r"\\\1", part) for part in re.split(r"\*+", word)]
    pattern = "%".join(parts) if len(parts) > 1 else f"{parts[0].rstrip('/')}%"
    return records.c.key.like(pattern, escape="\\")


def _other_field_matches(record: Record, name: str, value: str) -> bool:
    if name in record.case.sizes:
        return record.case.sizes[name] in _whole_numbers(name, value)
    actual = _environment_values(record.environment).get(name, "")
    # A value may itself contain a comma.
    return any(_is_value(name, actual, wanted) for wanted in (value, *value.split(",")) if wanted)


def _is_value(name: str, actual: str, wanted: str) -> bool:
    """Equal, possibly without the local part of a version (2.10.0 for 2.10.0+cpu), or the start of a commit."""
    if name.endswith("commit"):
        return len(wanted) >= 6 and actual.startswith(wanted)
    return wanted in (actual, actual.partition("+")[0])


def _environment_values(environment: Environment) -> dict[str, str]:
    values: dict[str, str] = {}
    for group in ENVIRONMENT_GROUPS:
        values |= getattr(environment, group)
    return values


def _environment_fields(environment: Environment, name: str) -> set[str]:
    return {f"{group}.{name}" for group in ENVIRONMENT_GROUPS if name in getattr(environment, group)}


def _unknown_field(name: str, selected: Sequence[Record]) -> BadInput:
    sizes = {size for record in selected for size in record.case.sizes}
    names = {field for record in selected for field in _environment_values(record.environment)}
    environment = ", ".join(sorted(names))
    listed = f"of a record: {', '.join(FIELDS)}; a size of its workload; of its environment: {environment}"
    return unknown("field", name, {*FIELDS, *sizes, *names}, listed=listed)
