"""The commit of a user's project, read without running anything that a repository names."""

import os
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from tare.system import repository
from tare.system.repository import Repository, read_repository


def run_git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit of a model, and no configuration of the user."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    folder = tmp_path / "project"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "model.py").write_text("x = 1\n")
    run_git(folder, "init", "-q", "-b", "topic/faster")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-q", "-m", "A model")
    return folder


def test_a_clean_checkout(project: Path) -> None:
    commit = run_git(project, "rev-parse", "HEAD")
    for path in (project, project / "package", project / "package" / "model.py"):
        assert read_repository(path) == Repository(commit=commit, branch="topic/faster", dirty=False)
    assert str(read_repository(project)) == f"{commit[:10]} (topic/faster)"


def test_changes_are_those_of_tracked_files_and_an_untracked_model(project: Path) -> None:
    (project / "notes.txt").write_text("of no consequence")
    own = project / "package" / "new[1].py"
    own.write_text("y = 1\n")
    clean, untracked = read_repository(project), read_repository(own)
    assert clean is not None
    assert untracked is not None
    assert (clean.dirty, untracked.dirty) == (False, True)
    (project / "package" / "model.py").write_text("x = 2\n")
    changed = read_repository(project)
    assert changed is not None
    assert str(changed) == f"{clean.commit[:10]}+ (topic/faster)"
    run_git(project, "add", "package/model.py")
    staged = read_repository(project)
    assert staged is not None
    assert staged.dirty


def test_a_detached_head_has_no_branch(project: Path) -> None:
    run_git(project, "checkout", "-q", "--detach")
    detached = read_repository(project)
    assert detached is not None
    assert (detached.branch, str(detached)) == ("", detached.commit[:10])


def test_another_repository_of_the_environment_is_not_meant(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a hook of git, which may measure a model of another project."""
    other = project.parent / "other"
    other.mkdir()
    run_git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    state = read_repository(project)
    assert state is not None
    assert (state.branch, state.dirty) == ("topic/faster", False)


def test_no_repository_no_commit_no_git(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = project.parent / "empty"
    empty.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    assert read_repository(empty) is None
    assert read_repository(empty / "absent" / "model.py") is None
    run_git(empty, "init", "-q")
    assert read_repository(empty) is None
    monkeypatch.setenv("PATH", str(empty))
    assert read_repository(project) is None


def write_script(project: Path, marker: Path) -> Path:
    script = project.parent / "planted.sh"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >> {marker}\nexit 1\n')
    script.chmod(0o755)
    return script


def plant_programs(project: Path, marker: Path) -> None:
    """The ways in which the configuration of a repository makes `git status` run a program."""
    script = write_script(project, marker)
    included = project / ".git" / "more"
    included.write_text(f'[filter "in clu.ded"]\n\tclean = {script} included\n\trequired = true\n')
    hook = project / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(script.read_text())
    hook.chmod(0o755)
    for name, value in {
        "core.fsmonitor": str(script),
        "filter.evil.clean": f"{script} clean",
        "filter.evil.process": f"{script} process",
        "filter.evil.required": "true",
        "include.path": "more",
        "pager.status": str(script),
    }.items():
        run_git(project, "config", name, value)
    (project / ".git" / "info" / "attributes").write_text('model.py filter=evil\nother.py filter="in clu.ded"\n')


def test_a_repository_makes_git_run_nothing(project: Path) -> None:
    (project / "package" / "other.py").write_text("z = 1\n")
    run_git(project, "add", ".")
    run_git(project, "commit", "-q", "-m", "Another")
    marker = project.parent / "marker"
    plant_programs(project, marker)
    for name in ("model.py", "other.py"):
        # Another time, so that git has to read the file again.
        os.utime(project / "package" / name, (1, 1))
    state = read_repository(project)
    assert state is not None
    assert (state.branch, state.dirty) == ("topic/faster", False)
    assert not marker.exists()
    # The same without the precautions, which shows that the programs are well planted.
    subprocess.run(["git", "-C", str(project), "status"], capture_output=True, check=False, timeout=60)
    begun = marker.read_text()
    assert "planted.sh process" in begun
    assert "planted.sh 2 " in begun  # The monitor gets the version of its protocol.


def test_nothing_is_fetched(project: Path) -> None:
    """A partial clone fetches an object that is missing, by a program that the repository names."""
    marker = project.parent / "marker"
    for name, value in {
        "remote.origin.url": f"ext::{write_script(project, marker)} fetch",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
    }.items():
        run_git(project, "config", name, value)
    tree = run_git(project, "rev-parse", "HEAD^{tree}")
    (project / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    state = read_repository(project)
    assert state is not None
    assert state.dirty is None
    assert not marker.exists()
    subprocess.run(["git", "-C", str(project), "status"], capture_output=True, check=False, timeout=60)
    assert "planted.sh fetch" in marker.read_text()


def test_a_filter_that_cannot_be_overridden_leaves_the_changes_unknown(project: Path) -> None:
    run_git(project, "config", "filter.a=b.clean", "touch /never")
    state = read_repository(project)
    assert state is not None
    assert state.dirty is None
    assert str(state) == f"{state.commit[:10]}? (topic/faster)"


def test_many_changes_are_not_all_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(40):
        (project / f"{i}.py").write_text("")
    run_git(project, "add", ".")
    monkeypatch.setattr(repository, "MOST_BYTES", 200)
    state = read_repository(project)
    assert state is not None
    assert state.dirty in (True, None)


def test_a_git_that_hangs_is_ended(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project.parent / "bin"
    folder.mkdir()
    (folder / "git").write_text("#!/bin/sh\nsleep 600\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(repository, "TIMEOUT_S", 0.2)
    began = time.monotonic()
    assert read_repository(project) is None
    assert time.monotonic() - began < 300


def test_a_branch_has_no_secret_and_no_control_characters() -> None:
    secret = "ghp_" + "a1B2" * 9
    made = Repository(commit="0" * 40, branch=f"fix/{secret}\x1b[31m", dirty=False)
    assert made.branch == "fix/***[31m"
    with pytest.raises(msgspec.ValidationError, match="commit"):
        msgspec.convert({"commit": "zero", "branch": ""}, Repository)
