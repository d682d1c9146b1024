"""Where tare emit writes: only into a folder that is empty, its own, or forced, and never half a project."""

from pathlib import Path

import pytest

from tare.commands.emit import _move, check_target
from tare.errors import BadInput
from tare.rungs.vendor.emission.project import MARK


def made(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "README.md").write_text(f"{MARK}\n{text}")
    (folder / "data").mkdir()
    (folder / "data" / "index.txt").write_text(text)
    return folder


def test_a_folder_with_other_files_needs_force(tmp_path: Path) -> None:
    check_target(tmp_path / "new", force=False)
    check_target(made(tmp_path / "own", "old"), force=False)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    check_target(foreign, force=False)
    (foreign / "thesis.tex").write_text("years of work")
    with pytest.raises(BadInput, match=r"foreign is not empty and was not made by tare emit: .* --force"):
        check_target(foreign, force=False)
    check_target(foreign, force=True)


def test_a_file_or_a_missing_parent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="is a file: want a folder"):
        check_target(tmp_path / "file", force=True)
    with pytest.raises(BadInput, match="is no folder"):
        check_target(tmp_path / "missing" / "project", force=True)


def test_a_project_replaces_an_older_one_and_nothing_else(tmp_path: Path) -> None:
    target = made(tmp_path / "target", "old")
    # Of the older project alone, of a build, and of the user.
    (target / "kernels").mkdir()
    (target / "build").mkdir()
    (target / "notes.txt").write_text("mine")
    _move(made(tmp_path / "partial", "new"), target)
    assert (target / "data" / "index.txt").read_text() == "new"
    assert sorted(path.name for path in target.iterdir()) == ["README.md", "build", "data", "notes.txt"]
    assert [path.name for path in tmp_path.glob("*.old")] == []


def test_what_cannot_be_replaced_whole_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, partial = made(tmp_path / "target", "old"), made(tmp_path / "partial", "new")
    rename = Path.rename

    def fails_for_data(self: Path, other: Path) -> Path:
        if self == partial / "data":
            raise OSError(28, "No space left on device")
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", fails_for_data)
    with pytest.raises(OSError, match="No space left"):
        _move(partial, target)
    assert (target / "data" / "index.txt").read_text() == "old"
    assert (target / "README.md").read_text() == f"{MARK}\nold"
