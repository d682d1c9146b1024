"""From the command line to the record and back: the user's commit, tags, and the packages that were imported."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import commandline
import pytest
from commandline import Done

RUN = ("run", "mlp", "--smoke", "--rung", "eager", "--quick", "--no-parity", "--tag", "pr=12", "--tag", "by=me")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.full
def test_a_run_in_a_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q", "-b", "topic/faster")
    (project / "train.py").write_text("")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "A project")
    git(project, "remote", "add", "origin", "https://me:hunter2@example.org/private.git")
    variables = {"TARE_HOME": str(tmp_path / "home"), "TARE_STORE": str(tmp_path / "mine.db"), "COLUMNS": "200"}

    def tare(*args: str) -> Done:
        command = [sys.executable, "-m", "tare", *args]
        return subprocess.run(
            command, cwd=project, env={**os.environ, **variables}, capture_output=True, text=True
        )

    done = tare(*RUN, "--json")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["records"]
    commit = git(project, "rev-parse", "HEAD")
    assert record["project"] == {"commit": commit, "branch": "topic/faster", "dirty": False}
    assert record["tags"] == {"pr": "12", "by": "me"}
    packages = record["environment"]["packages"]
    assert packages["msgspec"] == version("msgspec")
    assert not packages.keys() & record["environment"]["software"].keys()
    assert "hunter2" not in done.stdout
    assert "private.git" not in done.stdout
    shown = " ".join(tare("show", "tag.pr=12").stdout.split())
    assert f"{commit} on topic/faster, without changes" in shown
    assert "pr=12, by=me" in shown
    (entry,) = json.loads(tare("list", "records", f"commit={commit[:8]}", "--json").stdout)
    assert (entry["tags"], entry["project"]["branch"]) == ({"pr": "12", "by": "me"}, "topic/faster")
    (history,) = json.loads(tare("history", "mlp", "--json").stdout)
    assert history["points"][0]["label"] == f"{commit[:10]} (topic/faster)"
    assert history["points"][0]["project"]["commit"] == commit


@pytest.mark.full
def test_an_own_model_belongs_to_the_repository_of_its_file(tmp_path: Path) -> None:
    """Measured from elsewhere, edited and measured again: one series of two points."""
    project = tmp_path / "project"
    project.mkdir()
    model = project / "my.py"
    network = "class Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(16, 4)\n"
    model.write_text(f"import torch, yaml\n\n{network}")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "A model")
    quick = ("run", str(model) + "::Net", "--input", "8x16", "--rung", "eager", "--quick", "--no-parity", "--json")
    records = []
    for text in ("", "\nWIDTH = 4\n"):
        model.write_text(model.read_text() + text)
        done = commandline.tare(tmp_path / "home", *quick)
        assert done.returncode == 0, done.stderr
        records += json.loads(done.stdout)["records"]
    assert [record["project"]["dirty"] for record in records] == [False, True]
    assert {record["project"]["commit"] for record in records} == {git(project, "rev-parse", "HEAD")}
    assert {record["environment"]["packages"]["PyYAML"] for record in records} == {version("PyYAML")}
    assert records[0]["case"]["source"] != records[1]["case"]["source"]
    (history,) = json.loads(commandline.tare(tmp_path / "home", "history", "my.py::Net", "--json").stdout)
    assert [point["label"][10:] for point in history["points"]] == [" (main)", "+ (main)"]


@pytest.mark.parametrize(
    "verb",
    [
        ("run", "mlp"),
        pytest.param(("explain", "mlp"), marks=pytest.mark.full),
        pytest.param(("check", "mlp", "--baseline", "main"), marks=pytest.mark.full),
    ],
)
def test_a_tag_that_is_none_is_refused_before_anything_is_measured(verb: tuple[str, ...], tmp_path: Path) -> None:
    done = commandline.tare(tmp_path, *verb, "--tag", "pr=12", "--tag", "api_token=hunter2")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "--tag api_token looks like a secret" in done.stderr
    assert "hunter2" not in done.stderr
