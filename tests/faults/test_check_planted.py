"""`tare check` from end to end: planted slowdowns and leaks are found, equal versions pass, a kill loses nothing.

One check with exact counts is in the quick tier.
"""

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commandline import planted_environment
from commandline import planted_tare as tare
from stored_rounds import stored_rounds

PLAN = """
[options]
rounds = 4
budget = 0.4
parity = false

[[grid]]
workload = ["{workload}"]
rung = ["eager"]
batch = [{batches}]
device = ["cpu"]
threads = [1]
"""
GROSS = ("--metric", "gross", "--confirm", "9", "--no-diff")


def plan(tmp_path: Path, workload: str, batches: str = "1") -> str:
    path = tmp_path / "night.toml"
    path.write_text(PLAN.format(workload=workload, batches=batches))
    return str(path)


@pytest.mark.full
@pytest.mark.alone
def test_a_planted_slowdown_is_found_side_by_side_and_named(home: Path, tmp_path: Path) -> None:
    done = tare(home, "check", plan(tmp_path, "planted_wait"), "--baseline-env", "PLANTED_MS=20", *GROSS,
                "--json", PLANTED_MS="40")  # fmt: skip
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    (case,) = report["cases"]
    (change,) = case["changes"]
    assert (change["verdict"], change["stage"], change["regression"]) == ("slower", "confirmed", True)
    assert 1.5 < change["ratio"] < 2.5
    assert (change["paired"], change["rounds_b"]) == (True, 9)


@pytest.mark.full
@pytest.mark.alone
def test_a_sleep_in_the_forward_is_called_python_time_with_its_function(home: Path, tmp_path: Path) -> None:
    gross = ("--metric", "gross", "--confirm", "9")
    done = tare(home, "check", plan(tmp_path, "planted_wait"), "--baseline-env", "PLANTED_MS=2", *gross,
                PLANTED_MS="20")  # fmt: skip
    assert done.returncode == 1, done.stderr
    told = " ".join(done.stdout.split())
    assert "host time outside operators grew by" in told
    assert "_sleep, <built-in function sleep>" in told
    assert "faster: operator" not in told


@pytest.mark.full
@pytest.mark.alone
def test_equal_versions_raise_nothing(home: Path, tmp_path: Path) -> None:
    done = tare(home, "check", plan(tmp_path, "planted_wait"), "--baseline-env", "PLANTED_MS=20", *GROSS,
                "--format", "markdown", PLANTED_MS="20")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no regression in 1 case" in done.stdout
    assert "To reproduce:" in done.stdout


@pytest.mark.full
@pytest.mark.alone
def test_a_stored_baseline_finds_it_as_well_and_every_format_says_so(home: Path, tmp_path: Path) -> None:
    where = plan(tmp_path, "planted_wait")
    assert tare(home, "run", where, "--rounds", "12", PLANTED_MS="20").returncode == 0
    assert tare(home, "baseline", "set", "main").returncode == 0
    out = tmp_path / "report.xml"
    done = tare(home, "check", where, "--baseline", "main", *GROSS, "--format", "junit", "-o", str(out),
                PLANTED_MS="40")  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert out.read_text().count("<failure") == 1
    compared = tare(home, "compare", "main", "newest", "--metric", "gross", "--json")
    assert compared.returncode == 1
    (case,) = json.loads(compared.stdout)["cases"]
    assert 1.5 < case["changes"][0]["ratio"] < 2.5


@pytest.mark.full
@pytest.mark.parametrize(
    ("extra", "metric"),
    [("copy", "bytes_copied"), ("synchronisation", "synchronisations")],
)
def test_a_planted_extra_copy_or_synchronisation_is_counted(
    home: Path, tmp_path: Path, extra: str, metric: str
) -> None:
    """Two rounds and no statistics: what is counted is exact."""
    done = tare(home, "check", plan(tmp_path, "planted_wait"), "--baseline-env", "PLANTED_EXTRA=", "--rounds", "2",
                "--metric", f"operators,{metric}", "--no-diff", "--json", PLANTED_EXTRA=extra)  # fmt: skip
    assert done.returncode == 1, done.stderr
    (case,) = json.loads(done.stdout)["cases"]
    changes = {change["metric"]: change for change in case["changes"]}
    assert changes[metric]["a"] == 0
    # A batch of one row of four float32 numbers, or one value handed to the host.
    assert changes[metric]["b"] == (16 if extra == "copy" else 1)
    assert all(change["exact"] and change["regression"] for change in changes.values())
    named = {one["name"]: (one["before_calls"], one["after_calls"]) for one in case["call_changes"]}
    assert case["call_changes_by"] == "count"
    assert named["aten::clone" if extra == "copy" else "aten::item"] == (0, 1)


@pytest.mark.full
def test_what_a_regression_changed_in_the_step_is_profiled_on_both_sides(home: Path, tmp_path: Path) -> None:
    args = ("check", plan(tmp_path, "planted_wait"), "--baseline-env", "PLANTED_EXTRA=", "--rounds", "2",
            "--metric", "operators", "--format", "markdown")  # fmt: skip
    done = tare(home, *args, PLANTED_EXTRA="copy")
    assert done.returncode == 1, done.stderr
    assert "profiled side by side" in done.stdout
    assert "| appeared | operator | `aten::clone` | 0 → 1 |" in done.stdout
    traces = {path: path.stat().st_mtime_ns for path in (home / "traces").glob("*.json.gz")}
    assert len(traces) == 2, "kept, so that tare diff finds them"
    again = tare(home, *args, "--resume", PLANTED_EXTRA="copy")
    assert "| appeared | operator | `aten::clone` | 0 → 1 |" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in (home / "traces").glob("*.json.gz")} == traces, (
        "profiled anew"
    )


@pytest.mark.full
def test_a_planted_leak_is_found_and_named(home: Path, tmp_path: Path) -> None:
    done = tare(home, "check", plan(tmp_path, "planted_leak"), "--baseline-env", "PLANTED_LEAK=0", "--metric",
                "gross", "--rounds", "2", "--confirm", "2", "--budget", "1.5", "--no-diff", "--json",
                PLANTED_LEAK="65536")  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    (case,) = json.loads(done.stdout)["cases"]
    assert len(case["leaks"]) == 1
    assert case["leaks"][0].startswith("host memory grows by 6")


def kill_after(home: Path, args: list[str], rounds: int) -> None:
    """Kills a check when the store has so many rounds."""
    environment = planted_environment(home) | {"PLANTED_MS": "40"}
    pipe = subprocess.DEVNULL
    running = subprocess.Popen([sys.executable, "-m", "tare", *args], env=environment, stdout=pipe, stderr=pipe)
    end = time.monotonic() + 600
    while len(stored_rounds(home)) < rounds:
        assert running.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    os.kill(running.pid, 9)
    running.wait()


@pytest.mark.full
@pytest.mark.alone
def test_kill_9_and_resume_give_the_verdict_and_measure_nothing_twice(home: Path, tmp_path: Path) -> None:
    """Killed twice: while it measures, and when it has gone on, while it confirms."""
    args = ["check", plan(tmp_path, "planted_wait"), "--baseline-env", "PLANTED_MS=20", *GROSS, "--json"]
    kill_after(home, args, 3)
    first = stored_rounds(home)
    kill_after(home, [*args, "--resume"], 12)
    second = stored_rounds(home)
    assert first.items() <= second.items()
    done = tare(home, *args, "--resume", PLANTED_MS="40")
    assert done.returncode == 1, done.stderr
    (case,) = json.loads(done.stdout)["cases"]
    assert case["changes"][0]["stage"] == "confirmed"
    now = stored_rounds(home)
    assert second.items() <= now.items()
    # On two sides: three rounds, as the change is overwhelming (four where noise hides that), and nine to confirm.
    assert len(now) in (2 * (3 + 9), 2 * (4 + 9))


@pytest.mark.full
def test_another_machine_is_refused_before_anything_is_measured(home: Path, tmp_path: Path) -> None:
    where = plan(tmp_path, "planted_wait")
    assert tare(home, "run", where, "--quick").returncode == 0
    assert tare(home, "baseline", "set", "main").returncode == 0
    with sqlite3.connect(home / "records.db") as database:
        for id_, text in database.execute("select record, document from documents").fetchall():
            record = json.loads(text)
            record["environment"]["machine"]["cpu"] = "another"
            database.execute("update documents set document = ? where record = ?", (json.dumps(record), id_))
    done = tare(home, "check", where, "--baseline", "main")
    assert done.returncode == 2
    assert "not comparable: machine.cpu: another against " in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert len(stored_rounds(home)) == 1
