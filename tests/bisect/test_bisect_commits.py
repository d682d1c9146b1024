"""A bisection over the commits of a real repository, with commands that really run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import measured
import pytest
from candidates import git, repository

from tare.bisect.candidates import commits
from tare.errors import BadInput

NOISE = "0.01"


def bisect(tmp: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} -S {measured.__file__} {tmp / 'counts'} {NOISE} {{dir}}/cost"
    return subprocess.run(
        [sys.executable, "-m", "tare", "bisect", "--command", command, "--json", *args],
        env={**os.environ, "TARE_HOME": str(tmp / "home"), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def read(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_slow_commit_is_found_and_described(tmp_path: Path) -> None:
    hashes = repository(tmp_path / "repo", ["1.00"] * 9 + ["1.07"] * 7)
    done = bisect(tmp_path, "--repo", str(tmp_path / "repo"), "--good", hashes[0], "--bad", "main")
    found = read(done)
    (culprit,) = found["culprits"]
    assert (done.returncode, found["verdict"]) == (0, "found")
    assert (culprit["culprit"], culprit["parent"]) == (hashes[9], hashes[8])
    assert culprit["title"] == "change 9"
    assert culprit["low"] < 1.07 < culprit["high"]
    assert min(culprit["runs"]) >= 5
    assert "kernels: 100 to 107" in culprit["changed"]
    assert any("cost" in line for line in culprit["changed"]), "the files of the commit"
    assert found["runs"] == len((tmp_path / "counts").read_text().splitlines())


def test_a_commit_that_does_not_build_is_skipped_and_named(tmp_path: Path) -> None:
    """The commit before the culprit cannot be built, so both are suspects."""
    hashes = repository(tmp_path / "repo", ["1.00"] * 8 + ["broken"] + ["1.07"] * 7)
    build = f"{sys.executable} -S -c \"import sys; sys.exit(open('cost').read() == 'broken')\""
    done = bisect(
        tmp_path, "--repo", str(tmp_path / "repo"), "--good", hashes[0], "--bad", "main", "--build", build
    )
    found = read(done)
    (culprit,) = found["culprits"]
    assert culprit["suspects"] == [hashes[8], hashes[9]]
    assert culprit["parent"] == hashes[7]
    (skipped,) = found["skipped"]
    assert (skipped["label"], skipped["stage"]) == (hashes[8], "build")


def test_two_culprits_are_both_named(tmp_path: Path) -> None:
    hashes = repository(tmp_path / "repo", ["1.00"] * 4 + ["1.08"] * 7 + ["1.16"] * 5)
    found = read(bisect(tmp_path, "--repo", str(tmp_path / "repo"), "--good", hashes[0], "--bad", "main"))
    assert [culprit["culprit"] for culprit in found["culprits"]] == [hashes[4], hashes[11]]


def test_killed_and_resumed_it_measures_nothing_twice(tmp_path: Path) -> None:
    """kill -9 from inside a run: that run is lost, and nothing else; the verdict is that of an unbroken search."""
    hashes = repository(tmp_path / "repo", ["1.00"] * 9 + ["1.07"] * 7)
    where = ("--repo", str(tmp_path / "repo"), "--good", hashes[0], "--bad", "main")
    killed = bisect(tmp_path, *where, KILL_AT="12")
    assert killed.returncode == -9
    before = len((tmp_path / "counts").read_text().splitlines())
    assert before == 12
    found = read(bisect(tmp_path, *where, "--resume"))
    assert [culprit["culprit"] for culprit in found["culprits"]] == [hashes[9]]
    # The run in which it was killed was counted and is not in the journal.
    assert found["runs"] == len((tmp_path / "counts").read_text().splitlines()) - 1
    journal = Path(found["journal"]).read_text().splitlines()
    assert len(journal) == found["runs"] + 1, "a head, and a line a run"


def test_resuming_what_is_done_runs_nothing(tmp_path: Path) -> None:
    hashes = repository(tmp_path / "repo", ["1.00"] * 3 + ["1.20"] * 3)
    where = ("--repo", str(tmp_path / "repo"), "--good", hashes[0], "--bad", "main")
    first = read(bisect(tmp_path, *where))
    runs = (tmp_path / "counts").read_text()
    again = read(bisect(tmp_path, *where, "--resume"))
    assert (tmp_path / "counts").read_text() == runs
    assert again["culprits"] == first["culprits"]


def test_a_good_commit_beside_the_line_of_first_parents_is_refused(tmp_path: Path) -> None:
    """The commits between the fork and the merge do not hold what it has: one of them would be blamed for that."""
    repo = tmp_path / "repo"
    hashes = repository(repo, ["1.00"] * 2)
    git(repo, "checkout", "--quiet", "-b", "side")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "beside")
    git(repo, "checkout", "--quiet", "main")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "after the fork")
    git(repo, "merge", "--quiet", "--no-ff", "side", "-m", "merge")
    with pytest.raises(BadInput, match=f"side came in by a merge.*such as {hashes[1][:12]}"):
        commits(repo, "side", "main")
    assert [one.title for one in commits(repo, hashes[1], "main")] == ["change 1", "after the fork", "merge"]


@pytest.mark.parametrize(
    ("args", "named"),
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
def test_bad_input_is_one_line(tmp_path: Path, args: tuple[str, ...], named: str) -> None:
    repository(tmp_path / "repo", ["1", "2", "3"])
    done = bisect(tmp_path, "--repo", str(tmp_path / "repo"), *args)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert named in done.stderr
