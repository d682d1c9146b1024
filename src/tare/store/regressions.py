"""Regressions that were found: kept with their state, their owner and what people wrote about them."""

import hashlib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
import sqlalchemy as sa

from tare.errors import BadInput, unknown
from tare.store import schema
from tare.store.database import Store

Source = Literal["history", "check"]
RegressionState = Literal["open", "explained", "fixed"]
STATES: tuple[RegressionState, ...] = ("open", "explained", "fixed")
LONGEST_NOTE, LONGEST_NAME = 4000, 100
Label = Annotated[str, msgspec.Meta(max_length=300)]


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of a series rose between two records: `before_record` is the last good one, `after_record` the
    first bad one. `ratio` is after over before, with its 95 % interval; None where a count was zero before. A
    `check` measured both sides again before it said so; `history` is a change point."""

    series: Annotated[str, msgspec.Meta(max_length=16)]
    metric: Annotated[str, msgspec.Meta(max_length=40)]
    source: Source
    found: Annotated[str, msgspec.Meta(max_length=40)]
    before_record: Annotated[str, msgspec.Meta(max_length=64)]
    after_record: Annotated[str, msgspec.Meta(max_length=64)]
    before_date: Annotated[str, msgspec.Meta(max_length=40)]
    after_date: Annotated[str, msgspec.Meta(max_length=40)]
    before_label: Label
    after_label: Label
    before: float
    after: float
    ratio: float | None
    low: float | None
    high: float | None
    state: RegressionState = "open"
    owner: Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)] = ""

    @property
    def id(self) -> str:
        """The same for a regression that is found again, or uploaded again."""
        identity = "\n".join((self.series, self.metric, self.source, self.after_record))
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    def overlaps(self, other: "Regression") -> bool:
        """Whether the two may be the same change: more points move its place a little."""
        return self.before_date <= other.after_date and other.before_date <= self.after_date


class Note(msgspec.Struct, frozen=True, kw_only=True):
    created: str
    author: str
    text: str


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def read_row(row: Any) -> Regression:
    return Regression(**{name: getattr(row, name) for name in Regression.__struct_fields__})


def regressions_of(store: Store, series: str) -> dict[str, Regression]:
    """By their ids."""
    table = schema.regressions
    rows = store.rows(sa.select(table).where(table.c.series == series).order_by(table.c.after_date))
    return {row.id: read_row(row) for row in rows}


def save(connection: sa.Connection, regression: Regression, id_: str = "") -> bool:
    """Stores a regression, or what is now known of the one with this id. What people have said of it stays: its
    state changes only from open to fixed. Returns whether it is new."""
    table = schema.regressions
    id_ = id_ or regression.id
    values = msgspec.structs.asdict(regression)
    known = connection.execute(sa.select(table.c.state).where(table.c.id == id_)).one_or_none()
    if known is None:
        connection.execute(sa.insert(table).values(id=id_, **values))
        return True
    kept = {"found", "owner", *(() if (known.state, regression.state) == ("open", "fixed") else ("state",))}
    changed = {name: value for name, value in values.items() if name not in kept}
    connection.execute(sa.update(table).where(table.c.id == id_).values(changed))
    return False


def get_regression(store: Store, id_: str) -> Regression:
    table = schema.regressions
    rows = store.rows(sa.select(table).where(table.c.id == id_))
    if not rows:
        raise BadInput(f"there is no regression '{id_[:40]}' in {store.where}")
    return read_row(rows[0])


def change_regression(store: Store, id_: str, state: str, owner: str) -> None:
    """Says what became of it, and whose it is."""
    if state not in STATES:
        raise unknown("state", state, STATES)
    if len(owner) > LONGEST_NAME or not owner.isprintable():
        raise BadInput(f"the owner of a regression is a name of at most {LONGEST_NAME} characters")
    table = schema.regressions
    with store.transaction() as connection:
        connection.execute(sa.update(table).where(table.c.id == id_).values(state=state, owner=owner))


def add_note(store: Store, id_: str, author: str, text: str) -> None:
    text = text.strip()
    if not text or len(text) > LONGEST_NOTE:
        raise BadInput(f"a note has 1 to {LONGEST_NOTE} characters, not {len(text)}")
    note = {"id": uuid.uuid4().hex[:16], "regression": id_, "created": now(), "author": author, "text": text}
    with store.transaction() as connection:
        connection.execute(sa.insert(schema.notes).values(note))


def notes_of(store: Store, ids: Sequence[str]) -> dict[str, list[Note]]:
    """The notes of regressions, oldest first."""
    table = schema.notes
    statement = sa.select(table).where(table.c.regression.in_(ids)).order_by(table.c.created)
    found: dict[str, list[Note]] = {}
    for row in store.rows(statement):
        found.setdefault(row.regression, []).append(Note(created=row.created, author=row.author, text=row.text))
    return found
