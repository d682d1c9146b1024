"""A store comes up to date by itself, once, and keeps what it holds."""

import sqlite3
from pathlib import Path

import pytest
from builders import make_case, make_record, make_round
from sqlalchemy import Connection, text

from tare.errors import BadInput
from tare.store import schema
from tare.store.database import Store
from tare.store.journal import begin, resume
from tare.store.query import Query


def version_of(path: Path) -> list[int]:
    with sqlite3.connect(path) as connection:
        return [row[0] for row in connection.execute("SELECT version FROM schema_version")]


def columns_of(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        return [row[1] for row in connection.execute("PRAGMA table_info(runs)")]


def filled(path: Path) -> Path:
    store = Store(str(path))
    journal = begin(store, "old", "mark", [])
    journal.add_record(make_record(run=journal.run))
    store.close()
    return path


def add_colour(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE runs ADD COLUMN colour TEXT DEFAULT 'red'"))


def test_a_fresh_store_has_the_newest_version(tmp_path: Path) -> None:
    Store(str(tmp_path / "new.db")).close()
    assert version_of(tmp_path / "new.db") == [len(schema.MIGRATIONS) + 1]


def test_a_current_store_is_left_alone(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    before = version_of(path), columns_of(path)
    store = Store(str(path))
    assert len(store.find(Query())) == 1
    assert (version_of(path), columns_of(path)) == before


def test_an_older_store_is_migrated_once_and_keeps_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path / "old.db")
    (old,) = version_of(path)
    applied: list[str] = []

    def first(connection: Connection) -> None:
        add_colour(connection)
        applied.append("first")

    def second(_: Connection) -> None:
        applied.append("second")

    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, first, second])
    for _ in range(2):
        store = Store(str(path))
        assert [r.case for r in store.find(Query())] == [make_record().case]
        store.close()
    assert applied == ["first", "second"]
    assert version_of(path) == [old + 2]
    assert columns_of(path)[-1] == "colour"


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "old.db")
    before = version_of(path), columns_of(path)

    def breaks(connection: Connection) -> None:
        add_colour(connection)
        raise ZeroDivisionError

    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, breaks])
    with pytest.raises(ZeroDivisionError):
        Store(str(path))
    assert (version_of(path), columns_of(path)) == before


def test_a_fresh_store_needs_no_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables are the newest already: a step that adds a column would find it there."""
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, lambda _: pytest.fail("migrated")])
    Store(str(tmp_path / "new.db")).close()
    assert version_of(tmp_path / "new.db") == [len(schema.MIGRATIONS) + 1]


def test_a_newer_store_is_refused_and_untouched(tmp_path: Path) -> None:
    path = filled(tmp_path / "newer.db")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    said = rf"newer\.db has schema 99; this tare knows up to {len(schema.MIGRATIONS) + 1}: upgrade tare-bench"
    with pytest.raises(BadInput, match=said):
        Store(str(path))
    assert version_of(path) == [99]


@pytest.mark.parametrize(
    "statements",
    [
        ["DELETE FROM schema_version"],
        ["INSERT INTO schema_version VALUES (7)"],
        ["UPDATE schema_version SET version = -3"],
        ["DROP TABLE schema_version", "CREATE TABLE schema_version (flyway TEXT)"],
    ],
)
def test_a_database_of_something_else_is_refused(tmp_path: Path, statements: list[str]) -> None:
    path = filled(tmp_path / "odd.db")
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    with pytest.raises(BadInput, match=r"odd\.db is not a store: "):
        Store(str(path))


def test_a_store_from_before_searches_were_kept_keeps_them_now(tmp_path: Path) -> None:
    path = filled(tmp_path / "old.db")
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE search_points")
        connection.execute("UPDATE schema_version SET version = 3")
    store = Store(str(path))
    assert version_of(path) == [len(schema.MIGRATIONS) + 1]
    journal = resume(store, "mark")
    assert journal is not None
    journal.add_point(make_case(), make_round())
    again = resume(store, "mark")
    assert again is not None
    assert again.point(make_case()) == make_round()
