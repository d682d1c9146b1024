"""The folder of a run: gone with it, swept up after one that was killed, refused where there is no room."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import start
from users import acting_as_nobody

from tare.errors import BadInput
from tare.system.scratch import ALIVE, scratch


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder that any user may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    monkeypatch.setenv("TARE_HOME", str(folder))
    yield folder
    shutil.rmtree(folder)


def test_it_ends_with_the_run(home: Path) -> None:
    with scratch() as folder:
        (folder / "file").write_text("")
        assert folder.parent == home / "scratch"
    assert not folder.exists()


def test_what_a_killed_run_left_is_removed_and_a_living_one_s_is_not(home: Path) -> None:
    # No process has a number above this.
    dead, alive = home / "scratch" / f"{2**22 + 1}-x", home / "scratch" / f"{os.getpid()}-y"
    for folder in (dead, alive):
        folder.mkdir(parents=True)
    with scratch():
        assert not dead.exists()
        assert alive.exists()


def test_a_folder_is_alive_by_its_lock_and_not_by_a_number_of_another_container(home: Path) -> None:
    with scratch() as folder:
        # As it looks from where this process has another number, or none.
        moved = folder.rename(folder.with_name(f"{2**22 + 1}-{folder.name}"))
        with scratch() as other:
            assert moved.exists()
        assert not other.exists()
        moved.rename(folder)
    assert list((home / "scratch").iterdir()) == []


def test_a_folder_that_nobody_holds_goes_though_its_number_lives_again(home: Path) -> None:
    left = home / "scratch" / f"{os.getpid()}-z"
    left.mkdir(parents=True)
    (left / ALIVE).touch()
    with scratch():
        assert not left.exists()


def test_a_run_that_is_killed_leaves_its_folder_to_the_next(home: Path) -> None:
    code = (
        "from tare.system.scratch import scratch; held = scratch(); print(held.__enter__(), flush=True); input()"
    )
    killed = start(code)
    assert killed.stdout is not None
    folder = Path(killed.stdout.readline().strip())
    with scratch():
        assert folder.exists()
    killed.kill()
    killed.communicate()
    with scratch():
        assert not folder.exists()
    assert folder.parent == home / "scratch"


def test_without_locks_the_number_of_the_process_decides(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    dead = home / "scratch" / f"{2**22 + 1}-x"
    dead.mkdir(parents=True)
    (dead / ALIVE).touch()
    with scratch() as first, scratch():
        assert first.exists()
        assert not dead.exists()


def test_no_folder_can_be_made(home: Path) -> None:
    (home / "scratch").write_text("a file")
    with pytest.raises(BadInput, match=r"cannot make the folder .*scratch .*; set TARE_HOME"):
        scratch().__enter__()


def test_nothing_can_be_written_in_it(home: Path) -> None:
    (home / "scratch").mkdir()
    (home / "scratch").chmod(0o555)
    with acting_as_nobody(), pytest.raises(BadInput, match=r"cannot write to .*scratch .*; set TARE_HOME"):
        scratch().__enter__()
    (home / "scratch").chmod(0o755)
