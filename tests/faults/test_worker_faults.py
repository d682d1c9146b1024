"""Workers that crash, hang, flood and lie: each is recorded with its cause; the others are complete."""

import json
from pathlib import Path
from typing import Any

import psutil
import pytest
from commandline import planted_tare

PLAN = """
[options]
rounds = 1
budget = 0.5
timeout = 20
memory = {memory}

[[grid]]
workload = ["mlp", {workloads}]
rung = ["eager"]
device = "cpu"

[[grid]]
workload = ["mlp"]
rung = ["torchscript", "planted_offset", "planted_async"]
device = "cpu"
"""
FAULTS = {
    "segfault": ("signal", "SIGSEGV"),
    "abort": ("signal", "SIGABRT"),
    "hang": ("timeout", "20 s"),
    "hog": ("host-oom", "limit of 1500 MiB"),
    "greedy": ("host-oom", "allocate"),
    "raise": ("exception", "ValueError: a planted mistake"),
    "device_memory": ("device-oom", "out of memory"),
    "leave": ("no-result", "code 0"),
    "nan": ("nan", "not a number"),
}
# Of planted_processes. The worker's parent is its reaper.
PROCESS_FAULTS = {
    "kill_parent": ("signal", "its parent process was killed"),
    "stop_parent": ("signal", "its parent process had been stopped by a signal (SIGSTOP)"),
    "system_exit": ("exception", "SystemExit: the weights are gone"),
    "interrupt": ("exception", "KeyboardInterrupt: pressed by a library"),
    "child_answers": ("no-result", "code 0"),
}
# Workloads that can be measured all the same.
HARMLESS, HARMLESS_PROCESSES = ("flood",), ("detach", "stop_server")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run with every fault in it, as the user's JSON document plus the exit code."""
    return run_with_faults(tmp_path_factory, (*HARMLESS, *FAULTS))


@pytest.fixture(scope="module")
def process_outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same with faults that need processes of their own."""
    return run_with_faults(tmp_path_factory, (*HARMLESS_PROCESSES, *PROCESS_FAULTS))


def run_with_faults(tmp_path_factory: pytest.TempPathFactory, planted: tuple[str, ...]) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("faults")
    names = ", ".join(f'"planted_{name}"' for name in planted)
    notes = folder / "notes"
    notes.mkdir()
    plan = folder / "plan.toml"
    plan.write_text(PLAN.format(workloads=names, memory=1500 * 2**20))
    variables = {"TARE_PLUGINS": "planted_processes", "PLANTED_NOTES": str(notes)}
    done = planted_tare(folder / "home", "run", str(plan), "--json", **variables)
    document: dict[str, Any] = json.loads(done.stdout)
    document["detached"] = [int(path.stem) for path in notes.glob("*.pid")]
    document["exit"], document["stderr"] = done.returncode, done.stderr
    return document


def _record(outcome: dict[str, Any], workload: str, rung: str = "eager") -> dict[str, Any]:
    case = {"workload": workload, "rung": rung}
    return next(r for r in outcome["records"] if case.items() <= r["case"].items())


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_recorded_with_its_cause(outcome: dict[str, Any], name: str) -> None:
    check_failure(outcome, name, *FAULTS[name])


@pytest.mark.full
@pytest.mark.parametrize("name", PROCESS_FAULTS)
def test_a_fault_of_processes_is_recorded_with_its_cause(process_outcome: dict[str, Any], name: str) -> None:
    check_failure(process_outcome, name, *PROCESS_FAULTS[name])


def check_failure(outcome: dict[str, Any], name: str, cause: str, text: str) -> None:
    failure = _record(outcome, f"planted_{name}")["failure"]
    assert failure["cause"] == cause
    assert text in failure["message"]
    assert "\n" not in failure["message"]


def test_the_other_cases_are_complete(outcome: dict[str, Any]) -> None:
    assert len(outcome["records"]) == outcome["planned"] == len(FAULTS) + len(HARMLESS) + 4
    for rung in ("eager", "torchscript"):
        good = _record(outcome, "mlp", rung)
        assert good["failure"] is None
        assert good["parity"]["status"] == "same"
        kinds = [series["kind"] for series in good["rounds"][0]["series"]]
        assert kinds == ["warmup", "pipelined", "latency"]


def test_a_failed_case_makes_the_exit_code_1_and_no_traceback(outcome: dict[str, Any]) -> None:
    assert outcome["exit"] == 1
    assert "Traceback" not in outcome["stderr"]


def test_a_gigabyte_on_stdout_harms_nothing(outcome: dict[str, Any]) -> None:
    record = _record(outcome, "planted_flood")
    assert record["failure"] is None
    assert len(json.dumps(record)) < 2_000_000


@pytest.mark.full
def test_what_a_workload_detached_has_ended_and_its_case_is_measured(process_outcome: dict[str, Any]) -> None:
    assert len(process_outcome["detached"]) >= 3
    assert not any(map(psutil.pid_exists, process_outcome["detached"]))
    assert _record(process_outcome, "planted_detach")["failure"] is None


@pytest.mark.full
def test_a_stopped_fork_server_is_replaced(process_outcome: dict[str, Any]) -> None:
    """All cases after it, the faults above among them, have been run by another server."""
    assert _record(process_outcome, "planted_stop_server")["failure"] is None


def test_a_wrong_result_is_different_and_never_faster(outcome: dict[str, Any]) -> None:
    record = _record(outcome, "mlp", "planted_offset")
    assert record["parity"]["status"] == "different"
    assert record["parity"]["error"] == pytest.approx(0.005, rel=0.01)
    ladder = next(one for one in outcome["ladders"] if one["case"]["workload"] == "mlp")
    row = next(row for row in ladder["rows"] if row["rung"] == "planted_offset")
    assert row["speedup_over_eager"] is None
    assert row["speed_of_best"] is None


def test_a_missing_synchronisation_is_caught(outcome: dict[str, Any]) -> None:
    failure = _record(outcome, "mlp", "planted_async")["failure"]
    assert failure["cause"] == "unsynchronised"


def test_samples_taken_before_a_failure_are_kept(outcome: dict[str, Any]) -> None:
    done = _record(outcome, "planted_nan")["rounds"][0]
    assert [series["kind"] for series in done["series"]] == ["warmup", "pipelined", "latency"]


def test_nothing_of_the_run_is_left_on_disk_but_the_store(outcome: dict[str, Any]) -> None:
    home = Path(outcome["store"]).parent
    assert list((home / "scratch").iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_fail_fast_ends_a_run_at_the_first_failure(tmp_path: Path, jobs: str) -> None:
    # With --jobs 2 both are prepared, but only the first to fail is recorded before the run ends.
    targets = ("planted_raise", "planted_tiny") if jobs == "1" else ("planted_raise",)
    arguments = ("run", *targets, "--rung", "eager", "--device", "cpu", "--quick", "--fail-fast", "--jobs", jobs)
    done = planted_tare(tmp_path / "home", *arguments, "--json")
    assert done.returncode == 1, done.stderr
    assert [one["case"]["workload"] for one in json.loads(done.stdout)["records"]] == ["planted_raise"]
