"""SQLite files that anybody may have written: tables are read, nothing else happens, and nothing hangs."""

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tare.errors import BadInput
from tare.system.sqlite_tables import SqliteTables

PAGE = 512
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"


def make(path: Path, *statements: str, rows: int = 3) -> Path:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"PRAGMA page_size = {PAGE}")
        database.execute('CREATE TABLE t (a, b, "end")')
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", [(i, f"text {i}", i / 2) for i in range(rows)])
        for statement in statements:
            database.execute(statement)
    return path


def rows(path: Path, table: str = "t", columns: tuple[str, ...] = ("a", "b")) -> list[dict[str, object]]:
    with SqliteTables(path) as tables:
        return list(tables.rows(table, columns))


def test_rows_are_read_and_what_a_file_has_not_is_none(tmp_path: Path) -> None:
    path = make(tmp_path / "odd name?#%.sqlite")
    assert rows(path, columns=("end", "a", "absent")) == [{"end": i / 2, "a": i, "absent": None} for i in range(3)]
    assert rows(path, columns=("absent",)) == []
    assert rows(path, table="absent") == []
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW v AS {ENDLESS}",
        "CREATE VIEW v AS SELECT zeroblob(1000000000) AS a",
        "CREATE VIRTUAL TABLE v USING fts5(a)",
        "CREATE TABLE v (b, a AS (b LIKE '%a%a%a%a%a%a%a%a%b'))",
    ],
    ids=["a view without end", "a view of gigabytes", "a virtual table", "a generated column"],
)
def test_nothing_of_the_file_is_evaluated(tmp_path: Path, statement: str) -> None:
    path = make(tmp_path / "t.sqlite", statement)
    if "TABLE v (" in statement:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(f"INSERT INTO v (b) VALUES ('{'a' * 1000}')")
    assert rows(path, table="v", columns=("a",)) == []
    assert len(rows(path)) == 3


def test_an_index_on_an_expression_and_a_trigger_do_nothing(tmp_path: Path) -> None:
    index = "CREATE INDEX i ON t (a, b, abs(a))"
    trigger = "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END"
    path = make(tmp_path / "t.sqlite", index, trigger)
    before = path.read_bytes()
    assert len(rows(path)) == 3
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"SQLite format 3\0", "not a database"),
        (b"SQLite format 3\0" + b"\xff" * 2000, "not a database"),
        (b"not one at all" * 100, "not a database"),
    ],
    ids=["the magic alone", "the magic and junk", "a text"],
)
def test_what_is_no_database_is_refused_in_one_line(tmp_path: Path, data: bytes, complaint: str) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(data)
    with pytest.raises(BadInput, match=complaint) as caught:
        rows(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_text_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "t.sqlite", f"INSERT INTO t VALUES (1, zeroblob({9 << 20}), 0)")
    with pytest.raises(BadInput, match="too big"):
        rows(path)


def interior_cells(data: bytes, page: int) -> list[int]:
    """Where the numbers of the children of a page of a table are; none for a leaf."""
    start = page * PAGE
    header = start + (100 if page == 0 else 0)
    if data[header] != 5:
        return []
    count = int.from_bytes(data[header + 3 : header + 5])
    pointers = (header + 12 + 2 * i for i in range(count))
    return [header + 8, *(start + int.from_bytes(data[at : at + 2]) for at in pointers)]


def redirect(path: Path, lead: Callable[[list[int], int], int]) -> Path:
    """All children of a page replaced by one: `lead` gets the pages that have any, and the position of one."""
    data = bytearray(path.read_bytes())
    parents = [page for page in range(len(data) // PAGE) if interior_cells(bytes(data), page)]
    # The root of the table comes first: the pages of the schema have no children.
    for position, page in enumerate(parents):
        for at in interior_cells(bytes(data), page):
            data[at : at + 4] = lead([parent + 1 for parent in parents], position).to_bytes(4)
    path.write_bytes(data)
    return path


def test_pages_that_lead_to_the_same_rows_again_and_again_are_refused(tmp_path: Path) -> None:
    """Every page has the next one many times: a small file holds more rows than anybody can count."""
    path = make(tmp_path / "t.sqlite", rows=4_000)
    leaf = 3
    redirect(path, lambda parents, position: [*parents[1:4], leaf][min(position, 3)])
    with pytest.raises(BadInput, match=r"more rows than a file of its size|more text than its size"):
        rows(path)
    with pytest.raises(BadInput, match="more rows than a file of its size"):
        rows(path, columns=("a",))


def test_a_page_that_is_its_own_child_is_refused(tmp_path: Path) -> None:
    path = redirect(make(tmp_path / "t.sqlite", rows=2_000), lambda parents, position: parents[position])
    with pytest.raises(BadInput, match="damaged"):
        rows(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(at=st.integers(0, 8000), junk=st.binary(min_size=1, max_size=40), cut=st.booleans())
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, at: int, junk: bytes, cut: bool) -> None:
    path = tmp_path / "t.sqlite"
    if not path.exists():
        make(path, "CREATE INDEX i ON t (b)", rows=200)
    data = path.read_bytes()
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(data[:at] if cut else data[:at] + junk + data[at + len(junk) :])
    with suppress(BadInput):
        assert len(rows(damaged)) <= 10_000
