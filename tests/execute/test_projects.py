"""Which repository a record belongs to: that of the model's file, or that of the current folder."""

import subprocess
from pathlib import Path

import msgspec
import pytest
from builders import make_case

from tare.cases.source import ModelSource
from tare.execute.projects import read_projects


def make_repository(folder: Path, branch: str) -> None:
    folder.mkdir()
    (folder / "my.py").write_text("x = 1\n")
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for command in (("init", "-q", "-b", branch), ("add", "."), ("commit", "-q", "-m", "A model")):
        subprocess.run(["git", *identity, "-C", str(folder), *command], check=True)


def test_the_file_of_the_model_or_else_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_repository(tmp_path / "here", "here")
    make_repository(tmp_path / "there", "there")
    (tmp_path / "nowhere").mkdir()
    (tmp_path / "nowhere" / "other.py").write_text("")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.chdir(tmp_path / "here")
    sources = {
        "my.py::Model": ("file", str(tmp_path / "there" / "my.py")),
        "other.py::Model": ("file", str(tmp_path / "nowhere" / "other.py")),
        "hf:gpt2": ("hf", "gpt2"),
    }

    def source(name: str) -> ModelSource | None:
        if name not in sources:
            return None
        kind, location = sources[name]
        fields = {"kind": kind, "target": name, "name": name, "location": location}
        return msgspec.convert(fields, ModelSource)

    cases = [make_case(workload=name, rung=rung) for name in ("mlp", *sources) for rung in ("a", "b")]
    found = read_projects(cases, source)
    assert {name: each.branch for name, each in found.items()} == {
        "mlp": "here", "my.py::Model": "there", "hf:gpt2": "here",
    }  # fmt: skip


def test_a_folder_that_is_gone_has_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert read_projects([make_case()]) == {}
    # pytest itself needs a folder to come back to.
    monkeypatch.chdir(tmp_path)
