"""--resume beside the process that is at work on the run: refused in one line, and nobody loses anything."""

import json
import os
import sqlite3
import sys
from pathlib import Path

import pytest
from commandline import Tare, start_tare, wait_until

from tare.store.database import Store

pytestmark = pytest.mark.full

PLAN = """
[options]
{options}

[[grid]]
workload = ["mlp"]
rung = ["eager"]
device = "cpu"
"""
CHECK = ("--baseline-python", sys.executable, "--no-diff")


def runs(home: Path) -> list[str]:
    if not (home / "records.db").exists():
        return []
    with sqlite3.connect(home / "records.db") as database:
        try:
            return [row[0] for row in database.execute("select id from runs order by created")]
        except sqlite3.OperationalError:
            return []


def cut_off(home: Path, *args: str) -> list[str]:
    """The runs that a verb has begun when it is killed."""
    running = start_tare(home, *args)
    wait_until(lambda: bool(runs(home)))
    running.kill()
    running.communicate()
    return runs(home)


@pytest.mark.parametrize("verb", ["run", "explain", "calibrate", "check"])
def test_a_run_at_work_is_not_resumed(home: Path, tare: Tare, tmp_path: Path, verb: str) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.format(options="rounds = 9\nbudget = 9"))
    target = ("mlp", "--device", "cpu") if verb == "explain" else (str(plan), *(CHECK if verb == "check" else ()))
    run, *_ = cut_off(home, verb, *target)
    with Store(str(home / "records.db")) as store:
        store.lock_run(run)
        second = tare(verb, *target, "--resume")
    assert second.returncode == 2, second.stderr
    (line,) = [line for line in second.stderr.splitlines() if line.startswith("tare: ")]
    assert f"process {os.getpid()} is measuring run {run}" in line
    assert "Traceback" not in second.stderr


def test_of_two_that_resume_at_once_one_does_the_work(home: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.format(options="rounds = 4\nbudget = 12\nwidth = 0.000001\nparity = false"))
    cut_off(home, "run", str(plan))
    both = [start_tare(home, "run", str(plan), "--resume", "--json") for _ in range(2)]
    said = [one.communicate(timeout=200) for one in both]
    codes = [one.returncode for one in both]
    # The other is refused, or finds everything done if it comes that late.
    assert 0 in codes
    assert set(codes) <= {0, 2}, said
    assert all("is measuring run " in err for (_, err), code in zip(said, codes, strict=True) if code)
    found = [json.loads(out)["records"] for (out, _), code in zip(said, codes, strict=True) if not code]
    assert len({record["id"] for (record,) in found}) == 1
    assert [done["index"] for done in found[0][0]["rounds"]] == list(range(4))
    assert list(home.glob("*.jsonl")) == []
    assert list(home.glob("tare-*.lock")) == [], "a run that has ended is free"
