"""The TorchBench paper's seven problem commits, each among 64 commits: does `check` fail, does `bisect` find it?

    python -m benchmarks.seven [--only 61056,72148] [--json results/guard/seven.json]

Everything is real: git, commits, worktrees, fresh processes on this machine's CPU with its own noise. Beside the
runs that `bisect` took stand those of a plain binary search that is wrong as seldom: simulated with the noise seen
in the real runs, for a figure without noise simply the two ends and six halvings. What is done already is not done
again: each problem is written to the file as soon as it is known.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.seven.effort import plain_effort, tare_effort
from benchmarks.seven.guarding import bisect, check
from benchmarks.seven.problems import PROBLEMS, Problem
from benchmarks.seven.repository import COMMITS, make_history
from tare.guard.metrics import get_metric


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="numbers of pull requests, separated by commas")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    wanted = [int(number) for number in args.only.split(",") if number]
    found: dict[str, Any] = {"commits": COMMITS, "cores": os.cpu_count(), "problems": {}}
    if args.json and args.json.exists():
        found = json.loads(args.json.read_text())
    for problem in PROBLEMS:
        if (wanted and problem.pull not in wanted) or str(problem.pull) in found["problems"]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found["problems"][str(problem.pull)] = row = run(problem, Path(folder))
        said = "found" if row["right"] else "NOT FOUND"
        caught = "caught" if row["caught"] else "MISSED"
        print(f"#{problem.pull} {problem.issue}: {caught} by check, {said} by bisect in {row['runs']} runs "
              f"(plain: {row['plain']['runs']})", flush=True)  # fmt: skip
        if args.json:
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps(found, indent=1) + "\n")
    rows = found["problems"].values()
    return 0 if all(row["caught"] and row["right"] for row in rows) else 1


def run(problem: Problem, folder: Path) -> dict[str, Any]:
    history = make_history(folder / "repo", problem.pull)
    began = time.monotonic()
    checked = check(history, folder / "check")
    middle = time.monotonic()
    outcome = bisect(history, problem, folder)
    exact = get_metric(problem.metric).exact
    culprits = [history.commits.index(each["culprit"]) for each in outcome["culprits"]]
    return {
        "issue": problem.issue,
        "patch": problem.patch,
        "metric": problem.metric,
        "load_1min": os.getloadavg()[0],
        "caught": checked.exit_code == 1 and problem.workload in {name for name, _ in checked.accused},
        "accused": checked.accused,
        "check_s": middle - began,
        "culprit": history.culprit,
        "named": culprits,
        "right": culprits == [history.culprit],
        "verdict": outcome["verdict"],
        "ratio": outcome["ratio"],
        "noise": outcome["noise"],
        "runs": outcome["runs"],
        "bisect_s": time.monotonic() - middle,
        "changed": [line for each in outcome["culprits"] for line in each["changes"]],
        "tare": None if exact else tare_effort(outcome),
        "plain": plain_effort(outcome, exact),
    }


if __name__ == "__main__":
    sys.exit(main())
