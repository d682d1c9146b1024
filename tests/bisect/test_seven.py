"""Problem commits of the TorchBench paper in a generated repository of 64 commits: bisected for real, by counting.

The others of the seven need times, and many runs of them: `python -m benchmarks.seven` has all.
"""

from pathlib import Path

import pytest

from benchmarks.seven.guarding import bisect, check
from benchmarks.seven.problems import PROBLEMS, Problem, get_problem
from benchmarks.seven.repository import HERE, git, make_history
from tare.guard.metrics import get_metric


@pytest.mark.parametrize(
    "problem",
    [PROBLEMS[0], *(pytest.param(problem, marks=pytest.mark.full) for problem in PROBLEMS[1:])],
    ids=lambda problem: str(problem.pull),
)
def test_the_history_has_one_culprit_and_harmless_commits(problem: Problem, tmp_path: Path) -> None:
    """The patch is in the culprit and in nothing before it; all others leave the patched module as it is."""
    history = make_history(tmp_path / "repo", problem.pull, commits=8)
    assert len(history.commits) == 8
    (patched,) = git(history.folder, "show", "--name-only", "--format=", history.commits[history.culprit]).split()
    assert patched in (HERE / "patches" / f"{problem.pull}.patch").read_text()
    touching = git(history.folder, "log", "--format=%H", "--", patched).split()
    assert touching == [history.commits[history.culprit], history.commits[0]]
    assert make_history(tmp_path / "again", problem.pull, commits=8).commits == history.commits


@pytest.mark.full
def test_a_duplicate_check_is_caught_and_found_by_counting(tmp_path: Path) -> None:
    """#61056: twice the synchronisations, whatever the machine does meanwhile; ten runs are what halving takes."""
    problem = get_problem(61056)
    assert get_metric(problem.metric).exact
    history = make_history(tmp_path / "repo", problem.pull)
    # Nothing to confirm in a count. The step is longer, too, which would be confirmed in thirty rounds.
    checked = check(history, tmp_path / "check", rounds=1, budget=0.1, workloads=(problem.workload,), confirm=0)
    assert checked.exit_code == 1
    assert (problem.workload, problem.metric) in checked.accused
    found = bisect(history, problem, tmp_path, budget=0.1)
    (culprit,) = found["culprits"]
    assert culprit["culprit"] == history.commits[history.culprit]
    assert (culprit["before"], culprit["after"]) == (1, 2)
    assert "operator aten::all: 1 to 2 calls" in culprit["changes"]
    assert found["runs"] <= 10
