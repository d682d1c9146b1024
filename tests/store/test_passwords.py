"""No message shows a password of a database URL, and no file is named by one, however the URL is mistyped."""

import sqlite3
from functools import partial
from pathlib import Path

import pytest
from builders import make_record
from sqlalchemy.exc import InterfaceError

from tare.errors import BadInput, TareError
from tare.store.database import Store
from tare.system.redaction import hide_passwords


@pytest.mark.parametrize(
    ("where", "safe"),
    [
        ("postgresql://u:secret@host/db", "postgresql://u:***@host/db"),
        ("postgresql+psycopg://u:secret@host:1/db?x=1", "postgresql+psycopg://u:***@host:1/db?x=1"),
        ("postgresql://u:sec@ret@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u:sec:ret/@host/db", "postgresql://u:***@host/db"),
        ("postgresql://:secret@host/db", "postgresql://:***@host/db"),
        ("postgresql:/u:secret@host/db", "postgresql:/u:***@host/db"),
        ("mysql://host/db?user=u&password=secret&x=1", "mysql://host/db?user=u&password=***&x=1"),
        ("postgresql://u@host/db", "postgresql://u@host/db"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("/home/a/x@y:z.db", "/home/a/x@y:z.db"),
    ],
)
def test_a_password_is_hidden_and_nothing_else(where: str, safe: str) -> None:
    assert hide_passwords(where, where) == safe


def test_a_library_that_repeats_a_part_of_the_password_is_quoted_without_it() -> None:
    where = "postgresql://u:se%20c@ret@host/db"
    assert hide_passwords('no host "ret@host"', where) == 'no host "***@host"'
    assert hide_passwords("cannot parse se%20c", where) == "cannot parse ***"
    assert hide_passwords("login failed with se c", where) == "login failed with ***"
    assert hide_passwords("no host", where) == "no host"


@pytest.mark.parametrize("reading", [True, False])
@pytest.mark.parametrize(
    "where",
    [
        "postgresql://u:secret@localhost:port/db",
        "nodb://u:secret@localhost/db",
        "postgresql:/u:secret@localhost/db",
        "nodb://localhost/db?password=secret",
    ],
)
def test_an_invalid_address_is_refused_without_its_password(where: str, reading: bool) -> None:
    with pytest.raises(BadInput) as caught:
        Store(where, reading=reading)
    assert "secret" not in str(caught.value)
    assert "***" in str(caught.value)


@pytest.mark.parametrize("reading", [True, False])
@pytest.mark.parametrize(
    "where",
    [
        "postgres:user:secret@host",
        "postgres:user:secret@host/db",
        "postgresql:user:secret@host:5432/db",
        "postgresql:/user:secret@host/db",
        "postgresql+psycopg:user:secret",
        "postgres//user:secret@host",
        "user:secret@host",
        "user:secret@host/db",
        "sqlite:secret.db",
        "pg:secret",
        "jdbc:postgresql:secret",
        "host=h user=u password=secret dbname=d",
        "host = h password = 'a secret'",
        "password=secret",
        "dbname=d passwd=secret",
        "Server=s;Database=d;Pwd=secret",
        "user=u&password=secret",
        'psql -h h "password=secret"',
        "PGPASSWORD=secret x",
        "postgres;secret",
        "h,password=secret",
    ],
)
def test_an_address_that_is_mistyped_makes_no_file(
    where: str, reading: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as caught:
        Store(where, reading=reading)
    assert "secret" not in str(caught.value)
    assert "begins with KIND://" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["./a:b.db", "plain.db", "x@y.db", "a=b.db", "user.db"])
def test_a_file_may_have_an_odd_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Store(name).close()
    assert (tmp_path / name).is_file()


def test_a_whole_path_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "u:p@h" / "password=x.db"
    path.parent.mkdir()
    Store(str(path)).close()
    assert path.is_file()


@pytest.mark.parametrize("writes", [True, False])
def test_an_error_of_the_database_repeats_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    """A driver may name the address in any error, also when the connection is lost much later."""
    store = Store(str(tmp_path / "x.db"))
    monkeypatch.setattr(store, "_hide", partial(hide_passwords, address="postgresql://u:sec@ret@host/db"))

    def fail(*_: object) -> None:
        raise InterfaceError("SELECT 1", {}, Exception("lost postgresql://u:sec@ret@host, login sec@ret"))

    monkeypatch.setattr(store.engine.pool, "connect", fail)
    with pytest.raises(TareError) as caught:
        store.add([make_record()]) if writes else store.find()
    assert str(caught.value).endswith("lost postgresql://u:***@host, login ***")


def test_a_path_with_a_password_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        Store(f"{tmp_path}/x://u:secret@host/db")
    assert "secret" not in str(caught.value)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


@pytest.mark.parametrize(
    ("statements", "named"),
    [
        (["DROP TABLE records", f"CREATE VIEW records AS {ENDLESS} SELECT i AS id, i AS run FROM n"], "the view"),
        (
            [
                "DROP TABLE alembic_version",
                f"CREATE VIEW alembic_version AS {ENDLESS} SELECT 1 AS version_num FROM n",
            ],
            "view",
        ),
        (["CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM records; END"], "the trigger 't'"),
        (["ALTER TABLE baselines ADD COLUMN x AS (hex(zeroblob(500000000)))"], "the computed column 'x'"),
        (["DROP TABLE Runs", "CREATE VIRTUAL TABLE RUNS USING rtree(id, a, b)"], "the virtual table 'RUNS'"),
    ],
)
def test_a_store_that_computes_its_rows_is_refused(tmp_path: Path, statements: list[str], named: str) -> None:
    """A small file could yield rows without end, or rows of gigabytes."""
    path = tmp_path / "x.db"
    Store(str(path)).close()
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    with pytest.raises(BadInput) as caught:
        Store(str(path), reading=True)
    assert f"the store {path} was not made by tare: it has " in str(caught.value)
    assert named in str(caught.value)


def test_a_store_may_have_views_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    Store(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE VIEW by_workload AS SELECT workload, count(*) FROM records GROUP BY workload")
    connection.close()
    with Store(str(path)) as store:
        assert store.find() == []
