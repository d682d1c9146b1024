"""Anything that is not a valid store is refused in one line that gives the reason."""

import re
import sqlite3
from pathlib import Path

import pytest
from builders import make_record
from sqlalchemy import update

from tare.errors import BadInput
from tare.records.record import VERSION
from tare.store import schema
from tare.store.database import Store, StoreFailed
from tare.store.journal import begin


def refusal(where: object) -> str:
    with pytest.raises(BadInput) as caught:
        Store(str(where)).find()
    message = " ".join(str(caught.value).split())
    assert message == str(caught.value)
    return message


@pytest.mark.parametrize("content", [b"garbage, not a database\n" * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_file_that_is_not_a_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    assert refusal(path) == f"cannot open the store {path}: file is not a database"
    assert path.read_bytes() == content


def test_a_store_with_damaged_pages(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = Store(str(path))
    begin(store, "plan", "mark", []).add_record(make_record())
    with store.transaction() as connection:
        connection.exec_driver_sql("SELECT 1")
    store.close()
    with sqlite3.connect(path) as connection_:
        connection_.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    assert str(path) in refusal(path)


def test_a_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path) == (
        f"the store {tmp_path} is a folder; name a file in it, such as {tmp_path / 'records.db'}"
    )


def test_a_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "none" / "x.db"
    assert refusal(path) == f"there is no folder {tmp_path / 'none'} for the store {path}"
    assert not path.parent.exists()


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    assert "File name too long" in refusal(tmp_path / ("a" * 300))
    assert "null" in refusal(tmp_path / "a\0b")
    assert "home directory" in refusal("~no-such-user-here/x.db")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("://", "Could not parse"),
        ("nodb://host/name", "nodb"),
        ("sqlite+nodriver:///x.db", "sqlite.nodriver"),
        ("postgresql://host:port/name", "'port'"),
        ("sqlite:////no/such/folder/x.db", "unable to open database file"),
        ("sqlite:///x.db?timeout=soon", "'soon'"),
    ],
)
def test_an_invalid_url(url: str, expected: str) -> None:
    message = refusal(url)
    assert url in message
    assert expected in message


def test_a_path_is_not_read_as_a_url(tmp_path: Path) -> None:
    for name in ("what?.db", "50%20off.db", "a#b.db", "ümlaut .db"):
        Store(str(tmp_path / name)).close()
        assert (tmp_path / name).is_file()
    assert len([path for path in tmp_path.iterdir() if path.suffix == ".db"]) == 4


def test_a_url_is_a_store_like_any_other(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'x.db'}")
    journal = begin(store, "plan", "mark", [])
    journal.add_record(make_record(run=journal.run))
    assert Store(str(tmp_path / "x.db")).find() == store.find() == [make_record(run=journal.run)]


def test_a_full_disk_is_a_failure_and_not_bad_input() -> None:
    with pytest.raises(StoreFailed, match=r"cannot write the store /dev/full: "):
        Store("/dev/full")


def test_the_default_store_is_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path / "deep" / "home"))
    assert Store().where == str(tmp_path / "deep" / "home" / "records.db")
    (tmp_path / "file").touch()
    monkeypatch.setenv("TARE_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(BadInput, match="set TARE_HOME"):
        Store()


def test_a_record_of_another_version_is_refused(store: Store) -> None:
    begin(store, "plan", "mark", []).add_record(make_record(version="2.0"))
    with pytest.raises(
        BadInput, match=rf"record record000001 in .* version 2\.0; this tare reads {re.escape(VERSION)}"
    ):
        store.find()


@pytest.mark.parametrize(
    ("revision", "remedy"), [("0000", "tare store upgrade"), ("9999", "install a newer tare")]
)
def test_a_store_of_another_layout_is_refused(address: str, revision: str, remedy: str) -> None:
    with Store(address) as store, store.transaction() as connection:
        connection.execute(update(schema.revision).values(version_num=revision))
    with pytest.raises(BadInput) as refused:
        Store(address)
    assert str(refused.value) == (
        f"the store {store.where} has layout {revision}; this tare uses {schema.REVISION}: {remedy}, or name"
        " another store with --store or TARE_STORE"
    )


def test_a_store_from_before_the_first_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE schema_version (version INTEGER PRIMARY KEY)")
    assert "before the first release: export its records" in refusal(path)
