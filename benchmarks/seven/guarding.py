"""`tare check` and `tare bisect` on a generated repository, as a user would call them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.seven.problems import Problem
from benchmarks.seven.repository import HERE, History, check_out

PLUGIN = "smallnet_workloads"
WORKLOADS = ("small_vision", "small_recommender", "small_actor", "small_quantised")
PLAN = """
[options]
rounds = {rounds}
budget = {budget}
parity = false
[[grid]]
workload = {workloads}
rung = ["eager"]
device = ["cpu"]
threads = [1]
"""
# The batch is the workload's own.
BATCHES = {"small_vision": 2, "small_recommender": 128, "small_actor": 256, "small_quantised": 8}


class Checked(NamedTuple):
    exit_code: int
    # What was accused, as workload and metric.
    accused: list[tuple[str, str]]
    report: dict[str, Any]


def check(
    history: History,
    folder: Path,
    rounds: int = 6,
    budget: float = 1.2,
    workloads: tuple[str, ...] = WORKLOADS,
    confirm: int | None = None,
) -> Checked:
    """The newest commit against the first, side by side; `confirm` are rounds of a confirmation, if not by the
    noise."""
    folder.mkdir(parents=True)
    plan = folder / "night.toml"
    plan.write_text(PLAN.format(rounds=rounds, budget=budget, workloads=json.dumps(list(workloads))))
    before, now = (
        check_out(history, commit, folder / name)
        for name, commit in (("before", history.good), ("now", history.bad))
    )
    command = ["check", str(plan), "--json", "--no-diff", "--baseline-env", f"PYTHONPATH={_path(str(before))}"]
    command += [] if confirm is None else ["--confirm", str(confirm)]
    code, report = _tare(command, folder / "home", PYTHONPATH=_path(str(now)), TARE_PLUGINS=PLUGIN)
    accused = []
    for case in report["cases"]:
        name = case["case"].partition("/")[0]
        accused += [(name, change["metric"]) for change in case["changes"] if change["regression"]]
        accused += [(name, "leak")] * bool(case["leaks"])
    return Checked(code, accused, report)


def bisect(history: History, problem: Problem, folder: Path, budget: float = 0.4) -> dict[str, Any]:
    """Over all commits, with the metric in which the problem shows."""
    case = (
        f"{problem.workload}/eager/infer/cpu/fp32/batch={BATCHES[problem.workload]}/feed=device,layout=contiguous"
    )
    command = [
        *("bisect", "--case", f"{case},threads=1", "--metric", problem.metric, "--budget", str(budget), "--json"),
        *("--repo", str(history.folder), "--good", history.good, "--bad", history.bad),
        *("--env", f"PYTHONPATH={_path('{dir}')}", "--env", f"TARE_PLUGINS={PLUGIN}"),
    ]
    return _tare(command, folder / "home")[1]


def _path(tree: str) -> str:
    """A tree of the target, the plug-in, and whatever finds tare."""
    return os.pathsep.join(filter(None, (tree, str(HERE / "plugin"), os.environ.get("PYTHONPATH", ""))))


def _tare(command: list[str], home: Path, **variables: str) -> tuple[int, dict[str, Any]]:
    environment = {**os.environ, "TARE_HOME": str(home), **variables}
    done = subprocess.run(
        [sys.executable, "-m", "tare", *command], env=environment, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"tare {command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.returncode, json.loads(done.stdout)
