"""Workloads that stop, kill and detach processes: each ends in a recorded result, and the run goes on to the rest.

The quick tier has some of them, among the other faults of test_worker_faults.py.
"""

import json
from pathlib import Path
from typing import Any

import psutil
import pytest
from commandline import planted_tare

# Long enough to import torch on a busy machine.
TIMEOUT = "40"
REAPER_STOPPED = "ended because its parent process had been stopped by a signal (SIGSTOP)"
# The cause and the message of the failure, or None where the workload can be measured all the same.
FAULTS: dict[str, tuple[str, str] | None] = {
    "detach": None,
    "detach_hang": ("timeout", "stopped after 40 s"),
    "detach_abort": ("signal", "ended by SIGABRT"),
    "kill_parent": ("signal", "ended by SIGKILL: its parent process was killed"),
    "stop_parent": ("signal", REAPER_STOPPED),
    "stop_self": ("timeout", "stopped after 40 s; it had been stopped by a signal (SIGSTOP)"),
    "kill_self": ("signal", "ended by SIGKILL"),
    "system_exit": ("exception", "SystemExit: the weights are gone"),
    "system_exit_0": ("exception", "SystemExit: 0"),
    "interrupt": ("exception", "KeyboardInterrupt: pressed by a library"),
    "generator_exit": ("exception", "GeneratorExit: closed early"),
    "unprintable": ("exception", "Unprintable"),
    "closed": ("exception", "the worker exited with code 70 and no result"),
    "exhausted": ("exception", "OSError: [Errno 24] Too many open files: '/proc/self/status'"),
    "full": ("exception", "OSError: [Errno 27] File too large"),
    "child_answers": ("no-result", "the worker exited with code 0 and no result"),
}
# Under fork the server is above the reaper; what is above it otherwise is tare itself.
ABOVE = {"stop_server": None, "kill_server": None}


def measure(folder: Path, names: tuple[str, ...], *more: str) -> tuple[dict[str, Any], str]:
    """A record of each workload and, after all the faults, of `mlp`."""
    notes = folder / "notes"
    notes.mkdir(exist_ok=True)
    targets = [f"planted_{name}" for name in names]
    asked = ("--rung", "eager", "--device", "cpu", "--rounds", "1", "--budget", "0.3", "--no-parity", "--json")
    variables = {"TARE_PLUGINS": "planted_processes", "PLANTED_NOTES": str(notes)}
    done = planted_tare(folder / "home", "run", *targets, "mlp", *asked, "--timeout", TIMEOUT, *more, **variables)
    assert "Traceback" not in done.stderr
    records = json.loads(done.stdout)["records"]
    assert [record["case"]["workload"] for record in records] == [*targets, "mlp"]
    for path in notes.glob("*.pid"):
        assert not psutil.pid_exists(int(path.stem)), "what was detached has ended"
    return {record["case"]["workload"].removeprefix("planted_"): record for record in records}, done.stderr


def check(records: dict[str, Any], expected: dict[str, tuple[str, str] | None]) -> None:
    found = {
        name: record["failure"] and (record["failure"]["cause"], record["failure"]["message"])
        for name, record in records.items()
    }
    assert found == expected | {"mlp": None}


@pytest.mark.full
@pytest.mark.parametrize("isolation", ["fork", "spawn"])
def test_every_fault_is_recorded_and_the_others_are_measured(tmp_path: Path, isolation: str) -> None:
    faults = FAULTS | (ABOVE if isolation == "fork" else {})
    records, _ = measure(tmp_path, tuple(faults), "--isolation", isolation)
    check(records, faults)


@pytest.mark.full
def test_in_parallel_too(tmp_path: Path) -> None:
    names = ("kill_parent", "stop_parent", "detach", "stop_server", "interrupt")
    records, _ = measure(tmp_path, names, "--jobs", "2")
    check(records, {name: (FAULTS | ABOVE)[name] for name in names})
    # Nothing is left to measure: the failures are results.
    again, _ = measure(tmp_path, names, "--jobs", "2", "--resume")
    assert {name: record["id"] for name, record in again.items()} == {
        name: record["id"] for name, record in records.items()
    }
