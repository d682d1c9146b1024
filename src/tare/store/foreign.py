"""Results of other benchmark tools in the store: points of named series, without a case and so not records."""

import hashlib
from collections.abc import Iterable
from statistics import median
from typing import Annotated, Literal

import msgspec
from sqlalchemy import insert, select

from tare.cases.case import key_matches
from tare.errors import BadInput, brief
from tare.store import schema
from tare.store.database import Store

ForeignSource = Literal["pyperf", "pytest-benchmark", "google-benchmark"]
Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e300)]
LONGEST_NAME = 400


class ForeignPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark of one run of another tool. `values` has one value a process where the tool tells processes
    apart, otherwise one a repetition; the point is their median."""

    source: ForeignSource
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
    created: str
    unit: str
    values: Annotated[list[Positive], msgspec.Meta(min_length=1)]
    commit: str | None = None
    # What decides the speed: the processor, the interpreter. Not the name of the host.
    machine: dict[str, str] = {}
    software: dict[str, str] = {}

    @property
    def value(self) -> float:
        return median(self.values)

    @property
    def id(self) -> str:
        """A digest of the content, so that a result that is imported twice is one point."""
        return _digest(self)

    @property
    def place(self) -> str:
        return _digest(self.machine)


_decoder = msgspec.json.Decoder(ForeignPoint)


def add_foreign(store: Store, points: Iterable[ForeignPoint]) -> int:
    """Adds the points that are not stored yet, all or none of them; returns how many were new."""
    with store.transaction() as connection:
        stored = set(connection.scalars(select(schema.foreign_points.c.id)))
        new = {point.id: point for point in points if point.id not in stored}
        for id_, point in new.items():
            columns = {"source": point.source, "name": point.name, "created": point.created}
            document = msgspec.json.encode(point).decode()
            connection.execute(insert(schema.foreign_points).values(id=id_, document=document, **columns))
    return len(new)


def find_foreign(store: Store, words: Iterable[str]) -> list[ForeignPoint]:
    """The points whose name contains every word, or fits it where it has stars, oldest first.

    A part of a name is enough, because the names are long (`benchmarks/test_model.py::test_forward[64]`).
    """
    columns = schema.foreign_points.c
    statement = select(columns.id, columns.name, columns.document).order_by(columns.created, columns.id)
    points = []
    for row in store.rows(statement):
        if not all(key_matches(row.name, word) if "*" in word else word in row.name for word in words):
            continue
        try:
            points.append(_decoder.decode(row.document))
        except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
            raise BadInput(f"point {row.id} in {store.where} cannot be read: {brief(error)}") from None
    return points


def _digest(document: object) -> str:
    return hashlib.sha256(msgspec.json.encode(document, order="sorted")).hexdigest()[:16]
