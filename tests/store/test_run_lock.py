"""One process at a time holds a run, and a killed process releases it."""

import errno
import os
import signal
from pathlib import Path

import pytest
from builders import make_case, make_round
from children import start

from tare.errors import BadInput
from tare.store.database import Store
from tare.store.journal import begin, resume

HOLD = """
import sys
from tare.store.database import Store
from tare.store.journal import begin
journal = begin(Store(sys.argv[1]), "plan", "mark", [])
print(journal.run, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.db"


def locks(folder: Path) -> list[Path]:
    return list(folder.rglob("*.lock"))


def test_a_run_is_refused_until_its_process_is_killed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = start(HOLD, path)
    assert holder.stdout is not None
    run = holder.stdout.readline().strip()
    # What sees the same store sees the same lock, wherever it keeps its own files.
    monkeypatch.setenv("TARE_HOME", str(tmp_path / "another"))
    with Store(str(path)) as store:
        with pytest.raises(BadInput, match=rf"^process {holder.pid} is measuring run {run}: .*--resume"):
            resume(store, "mark")
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
        again = resume(store, "mark")
        assert again is not None
        again.add_round(make_case(), make_round(0))
    assert locks(tmp_path) == []


def test_the_lock_of_a_database_url_is_in_the_data_folder(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path / "home"))
    url = f"sqlite:///{path}"
    with Store(url) as first, Store(url) as second:
        journal = begin(first, "plan", "mark", [])
        assert locks(tmp_path) == [tmp_path / "home" / "runs" / f"tare-{journal.run}.lock"]
        with pytest.raises(BadInput, match=f"process {os.getpid()} is measuring run {journal.run}"):
            resume(second, "mark")
    with Store(url) as third:
        assert resume(third, "mark") is not None


def test_a_lock_is_for_one_run_and_can_be_acquired_again(path: Path) -> None:
    with Store(str(path)) as first, Store(str(path)) as second:
        begin(first, "plan", "mark", [])
        assert resume(first, "mark") is not None
        begin(second, "plan", "other", [])
        assert resume(second, "other") is not None


def test_a_lock_that_cannot_be_created_is_bad_input(path: Path) -> None:
    with Store(str(path)) as store:
        run = begin(store, "plan", "mark", []).run
    (path.parent / f"tare-{run}.lock").mkdir()
    with Store(str(path)) as store, pytest.raises(BadInput, match=f"cannot lock run {run} with .*Is a directory"):
        resume(store, "mark")


def test_a_file_system_without_locks_refuses_nobody(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", none)
    with Store(str(path)) as first, Store(str(path)) as second:
        begin(first, "plan", "mark", [])
        assert resume(second, "mark") is not None
