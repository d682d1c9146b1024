"""What `tare check --resume` goes on from: the same check of the same two versions, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from commandline import planted_tare as tare

pytestmark = pytest.mark.full

PLAN = """
[options]
rounds = 1
budget = 0.2
parity = false

[[grid]]
workload = ["planted_wait"]
rung = ["eager"]
device = ["cpu"]
threads = [1]
"""
FIRST_ONLY = ("--metric", "gross", "--confirm", "0", "--no-diff", "--json")


def check(home: Path, plan: Path, *how: str) -> dict[str, Any]:
    done = tare(home, "check", str(plan), *FIRST_ONLY, *how, PLANTED_MS="2")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_rounds_beside_another_version_are_not_taken_over(home: Path, tmp_path: Path) -> None:
    """Both baselines look alike as environments, and differ in what a variable makes of the step."""
    plan = tmp_path / "night.toml"
    plan.write_text(PLAN)
    fast = check(home, plan, "--baseline-env", "PLANTED_MS=2")
    slow = check(home, plan, "--baseline-env", "PLANTED_MS=8", "--resume")
    assert slow["cases"][0]["changes"][0]["a"] > 2 * fast["cases"][0]["changes"][0]["a"]
    assert slow["b"] != fast["b"]
    assert slow["notes"] == []
    again = check(home, plan, "--baseline-env", "PLANTED_MS=2", "--resume")
    assert again["cases"] == fast["cases"]
    assert f"complete, {again['b']} of " in again["notes"][0]
