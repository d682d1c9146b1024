"""What tare keeps is readable for its owner alone, whatever the umask."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import make_record, make_round

from tare.measure.profiler import write_trace
from tare.report.files import write_whole
from tare.store.database import Store
from tare.store.journal import begin
from tare.system.home import home, home_folder
from tare.system.journals import AppendOnlyFile
from tare.system.private_files import open_private, write_private


@pytest.fixture(params=[0o022, 0o000, 0o077], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_private(tmp_path: Path) -> None:
    write_private(tmp_path / "a", b"x")
    with AppendOnlyFile(tmp_path / "b") as file:
        file.append(b"x")
    assert mode(tmp_path / "a") == mode(tmp_path / "b") == 0o600


def test_the_data_folder_and_its_parents_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path / "a" / "b"))
    assert [mode(path) for path in (home().parent, home(), home_folder("traces"))] == [0o700] * 3


def test_a_folder_of_the_users_keeps_its_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    assert mode(home()) == 0o755


@pytest.mark.parametrize("url", ["{}", "sqlite:///{}", "sqlite:///file:{}?uri=true"])
def test_a_store_and_the_files_beside_it_are_private(tmp_path: Path, url: str) -> None:
    path = tmp_path / "records.db"
    with Store(url.format(path)) as store:
        assert mode(path) == 0o600
        with store.transaction() as connection:
            connection.exec_driver_sql("CREATE TABLE extra (x)")
            assert mode(tmp_path / "records.db-journal") == 0o600
    with Store(url.format(path)) as store, store.transaction() as connection:
        connection.exec_driver_sql("DROP TABLE extra")


def test_the_files_of_a_write_ahead_log_are_private(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    Store(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    with Store(str(path)) as store:
        begin(store, "plan", "mark", []).add_record(make_record())
        assert {mode(each) for each in tmp_path.glob("records.db-*")} == {0o600}
        assert len(list(tmp_path.glob("records.db-*"))) == 2


def test_a_store_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    Store(str(path)).close()
    path.chmod(0o640)
    Store(str(path)).close()
    assert mode(path) == 0o640


def test_rounds_that_could_not_be_stored_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(str(tmp_path / "records.db")) as store:
        journal = begin(store, "plan", "mark", [])
        record = make_record()
        place = Path(journal._write_unsaved(record.case, make_round()))
        assert mode(place) == 0o600
        # A file that someone else has put there is neither read nor written.
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert list(journal._read_unsaved()) == []
        assert journal._write_unsaved(record.case, make_round()).startswith("memory only")


def test_a_trace_is_private(tmp_path: Path) -> None:
    class Profiler:
        def export_chrome_trace(self, path: str) -> None:
            Path(path).write_text("{}")

    write_trace(Profiler(), str(tmp_path / "a.json.gz"))
    assert mode(tmp_path / "a.json.gz") == 0o600


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for flags in (os.O_WRONLY | os.O_CREAT, os.O_RDONLY):
        with pytest.raises(OSError, match="symbolic links"):
            open_private(tmp_path / "link", flags)
    assert not (tmp_path / "target").exists()


def test_a_report_follows_the_umask_and_keeps_the_mode_of_the_file_it_replaces(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "report.md"
    write_whole(path, "x")
    assert mode(path) == 0o666 & ~umask
    for kept in (0o600, 0o664):
        path.chmod(kept)
        write_whole(path, "y")
        assert mode(path) == kept
