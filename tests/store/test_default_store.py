"""TARE_STORE: the store of a command without --store."""

from pathlib import Path

import pytest
from builders import make_record
from commandline import tare

from tare.errors import BadInput
from tare.store.database import Store


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("TARE_HOME", str(folder))
    monkeypatch.delenv("TARE_STORE", raising=False)
    return folder


def test_the_variable_names_the_store(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine.db"
    monkeypatch.setenv("TARE_STORE", str(mine))
    with Store() as store:
        assert (store.where, store.folder) == (str(mine), tmp_path)
        store.add([make_record()])
    assert not (home / "records.db").exists()
    with Store(reading=True) as store:
        assert len(store.find()) == 1


def test_the_option_comes_first_and_an_empty_variable_is_none(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_STORE", str(tmp_path / "mine.db"))
    with Store(str(tmp_path / "other.db")) as store:
        assert store.where == str(tmp_path / "other.db")
    assert not (tmp_path / "mine.db").exists()
    monkeypatch.setenv("TARE_STORE", "")
    with Store() as store:
        assert store.where == str(home / "records.db")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("  ", "TARE_STORE names nothing"),
        ("postgres:user@host", "as a store: a database URL begins with"),
        ("nothing://user:hunter2@host/db", r"cannot use nothing://user:\*\*\*@host/db as a store"),
        ("no/such/folder/x.db", "there is no folder"),
        ("/tmp", "is a folder"),
    ],
)
def test_it_is_validated_like_the_option(value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_STORE", value)
    with pytest.raises(BadInput, match=message) as refusal:
        Store()
    assert "hunter2" not in str(refusal.value)


def test_a_store_that_does_not_exist_is_not_made_by_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_STORE", str(tmp_path / "mine.db"))
    with pytest.raises(BadInput, match=r"there is no store .*mine\.db"):
        Store(reading=True)


@pytest.mark.full
def test_the_command_line_uses_it(home: Path, tmp_path: Path) -> None:
    with Store(str(tmp_path / "mine.db")) as store:
        store.add([make_record(tags={"pr": "12"})])
    variables = {"TARE_STORE": str(tmp_path / "mine.db")}
    listed = tare(home, "list", "records", "tag.pr=12", **variables)
    assert (listed.returncode, "record000001" in listed.stdout) == (0, True), listed.stderr
    assert tare(home, "list", "records", "tag.pr=12").returncode == 2
