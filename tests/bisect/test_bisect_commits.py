"""A bisection over the commits of a real repository, with commands that really run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import measured
import pytest
from candidates import git, repository
from commandline import tare

from tare.bisect.candidates import list_commits
from tare.errors import BadInput

NOISE = "0.01"


def bisect(tmp: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} -S {measured.__file__} {tmp / 'counts'} {NOISE} {{dir}}/cost"
    return tare(tmp / "home", "bisect", "--command", command, "--json", *args, **environment)


def read(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode in (0, 1), done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_slow_commit_is_found_and_described_across_a_kill(tmp_path: Path) -> None:
    """kill -9 from inside a run: only that run is lost. Resuming a finished bisection runs nothing."""
    hashes = repository(tmp_path / "repo", ["1.00"] * 9 + ["1.07"] * 7)
    where = ("--repo", str(tmp_path / "repo"), "--good", hashes[0], "--bad", "main")
    counts = tmp_path / "counts"
    killed = bisect(tmp_path, *where, KILL_AT="12")
    assert killed.returncode == -9
    assert len(counts.read_text().splitlines()) == 12
    done = bisect(tmp_path, *where, "--resume")
    document = read(done)
    assert (done.returncode, document["verdict"]) == (0, "found")
    (culprit,) = document["culprits"]
    assert (culprit["culprit"], culprit["parent"]) == (hashes[9], hashes[8])
    assert culprit["title"] == "change 9"
    # One interval in twenty misses the truth, and the order of the runs is drawn anew: five standard errors.
    assert 1 < culprit["low"] < culprit["high"]
    assert abs((culprit["low"] + culprit["high"]) / 2 - 1.07) < 0.035
    assert min(culprit["runs"]) >= 5
    assert "kernels: 100 to 107" in culprit["changes"]
    assert any("cost" in line for line in culprit["changes"]), "the files of the commit"
    # The run in which it was killed was counted and is not in the journal.
    assert document["runs"] == len(counts.read_text().splitlines()) - 1
    journal = Path(document["journal"]).read_text().splitlines()
    assert len(journal) == document["runs"] + 1, "a header, and a line for each run"
    runs = counts.read_text()
    assert read(bisect(tmp_path, *where, "--resume"))["culprits"] == document["culprits"]
    assert counts.read_text() == runs


@pytest.mark.full
def test_a_commit_that_does_not_build_is_skipped_and_named(tmp_path: Path) -> None:
    """The commit before the culprit cannot be built, so both are suspects."""
    hashes = repository(tmp_path / "repo", ["1.00"] * 2 + ["broken"] + ["1.07"] * 2)
    build = f"{sys.executable} -S -c \"import sys; sys.exit(open('cost').read() == 'broken')\""
    done = bisect(
        tmp_path, "--repo", str(tmp_path / "repo"), "--good", hashes[0], "--bad", "main", "--build", build
    )
    document = read(done)
    (culprit,) = document["culprits"]
    assert culprit["suspects"] == [hashes[2], hashes[3]]
    assert culprit["parent"] == hashes[1]
    (skipped,) = document["skipped"]
    assert (skipped["label"], skipped["stage"]) == (hashes[2], "build")


def test_a_good_commit_beside_the_line_of_first_parents_is_refused(tmp_path: Path) -> None:
    """The commits between the fork and the merge do not contain it: one of them would be blamed for that."""
    repo = tmp_path / "repo"
    hashes = repository(repo, ["1.00"] * 2)
    git(repo, "checkout", "--quiet", "-b", "side")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "beside")
    git(repo, "checkout", "--quiet", "main")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "after the fork")
    git(repo, "merge", "--quiet", "--no-ff", "side", "-m", "merge")
    with pytest.raises(BadInput, match=f"side came in by a merge.*such as {hashes[1][:12]}"):
        list_commits(repo, "side", "main")
    titles = [candidate.title for candidate in list_commits(repo, hashes[1], "main")]
    assert titles == ["change 1", "after the fork", "merge"]


@pytest.fixture(scope="module")
def three_commits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository") / "repo"
    repository(folder, ["1", "2", "3"])
    return folder


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--good", "nothing", "--bad", "main"), "--good: there is no commit 'nothing' in"),
        (("--good", "main", "--bad", "nowhere"), "--bad: there is no commit 'nowhere' in"),
        (("--good", "main", "--bad", "main~2"), "ancestor"),
        (("--good", "main", "--bad", "main"), "same commit"),
        (("--good", "--output=x", "--bad", "main"), "not a commit"),
        (("--good", "main"), "--bad"),
        (("--good", "main~1", "--bad", "main", "--measure", "clock"), "wall"),
        (("--good", "main~1", "--bad", "main", "--env", "novalue"), "NAME=VALUE"),
        (("--good", "main~1", "--bad", "main", "--build", "'unclosed"), "--build"),
        (("--good", "main~1", "--bad", "main", "--confidence", "2"), "--confidence"),
    ],
)
def test_bad_input_is_one_line(three_commits: Path, tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    done = bisect(tmp_path, "--repo", str(three_commits), *args)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert message in done.stderr
