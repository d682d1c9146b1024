"""The folder of a run: gone with it, swept up after one that was killed, refused where there is no room."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from users import acting_as_nobody

from tare.errors import BadInput
from tare.execute.scratch import scratch


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


def test_no_folder_can_be_made(home: Path) -> None:
    (home / "scratch").write_text("a file")
    with pytest.raises(BadInput, match=r"cannot use .*scratch as the data folder .*; set TARE_HOME"):
        scratch().__enter__()


def test_nothing_can_be_written_in_it(home: Path) -> None:
    (home / "scratch").mkdir()
    (home / "scratch").chmod(0o555)
    with acting_as_nobody(), pytest.raises(BadInput, match=r"cannot write to .*scratch .*; set TARE_HOME"):
        scratch().__enter__()
    (home / "scratch").chmod(0o755)
