"""Rounds of a command: real processes, supervised like every worker."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from commandline import wait_until

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput
from tare.execute.executor import LocalExecutor
from tare.execute.launch import SpawnLauncher
from tare.execute.runner import make_record
from tare.measure.telemetry import Watch
from tare.records.environment import Environment
from tare.records.record import Round
from tare.report.ladder import make_ladders
from tare.rungs import registry as rungs
from tare.rungs.command import CommandRung
from tare.workloads import registry as workloads
from tare.workloads.commands import add_command, allow_statuses

Measure = Callable[..., Round]
QUICK = {"rounds": 1, "budget": 0.2, "parity": False}
NOWHERE = Environment(machine={}, software={}, flags={}, circumstances={})
HOLD = "import time; memory = bytearray(800 << 20); time.sleep(600)"


@pytest.fixture(autouse=True)
def _own_registries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The rung and the commands of these tests are unknown to other tests."""
    monkeypatch.setenv("TARE_HOME", str(tmp_path / "home"))
    rungs.all_rungs()
    workloads.all_workloads()
    monkeypatch.setattr(rungs, "_rungs", dict(rungs._rungs))
    monkeypatch.setattr(workloads, "_workloads", dict(workloads._workloads))
    rungs.rung(CommandRung)


@pytest.fixture
def measure(tmp_path: Path) -> Iterator[Measure]:
    executor = LocalExecutor(SpawnLauncher(), tmp_path)

    def measure(*arguments: str, allowed: tuple[int, ...] = (), **options: object) -> Round:
        name = add_command(arguments)
        allow_statuses(name, allowed)
        case = Case(workload=name, rung="command", batch=1)
        return executor.run_round(case, 0, Options(**QUICK | options), check=True)  # type: ignore[arg-type]

    yield measure
    executor.close()


def test_a_round_is_a_warm_up_and_at_least_three_runs(measure: Measure) -> None:
    arguments = (sys.executable, "-S", "-c", "import time; x = bytearray(90 << 20); time.sleep(0.1)")
    round_ = measure(*arguments, "--password", "not-for-records")
    assert round_.failure is None
    warm_up, runs = round_.series
    assert (warm_up.kind, len(warm_up.wall_ns)) == ("warmup", 1)
    assert (runs.kind, set(runs.steps)) == ("pipelined", {1})
    assert len(runs.wall_ns) >= 3
    assert min(runs.wall_ns) >= 100_000_000
    assert round_.host_memory is not None
    assert round_.memory_trace is not None
    assert max(round_.memory_trace.host) == round_.host_memory.peak >= 90 << 20
    assert round_.counts.keys() == {"user_us", "system_us"}
    assert round_.prepare_s is None
    assert "not-for-records" not in round_.flags["command"]
    assert round_.flags["command"].endswith("--password '***'")

    record = make_record(Case(workload="command:x", rung="command", batch=1), [round_], NOWHERE, "run")
    (ladder,) = make_ladders([record])
    assert "command: was not checked: the output of a command is not looked at" in ladder.notes
    assert f"command: {round_.flags['command']}" in ladder.notes
    assert ladder.rows[0].gross is not None


def test_a_status_that_is_not_allowed_is_a_failure_with_the_last_lines(measure: Measure) -> None:
    script = "echo first line >&2; echo api_key=abcdefgh1234 >&2; echo the disk is full >&2; exit 3"
    failure = measure("sh", "-c", script).failure
    assert failure is not None
    assert (failure.cause, failure.stage) == ("exit-status", "sample")
    assert failure.message == "exit status 3: first line api_key=*** the disk is full"
    assert failure.detail.startswith("first line\n")
    assert measure("sh", "-c", script, allowed=(3,)).failure is None


@pytest.mark.full
def test_a_secret_argument_that_the_command_repeats_is_hidden(measure: Measure) -> None:
    failure = measure("sh", "-c", "echo cannot log in with ${0#*=} >&2; exit 1", "--password=open-sesame").failure
    assert failure is not None
    assert failure.message == "exit status 1: cannot log in with ***"


@pytest.mark.full
def test_a_later_run_that_fails_names_its_number(measure: Measure, tmp_path: Path) -> None:
    count = f"echo >> {tmp_path}/runs; test $(wc -l < {tmp_path}/runs) -lt 3"
    failure = measure("sh", "-c", count).failure
    assert failure is not None
    assert failure.message == "exit status 1 in run 3: nothing on standard error"


@pytest.mark.full
def test_a_signal_is_named(measure: Measure) -> None:
    failure = measure("sh", "-c", "kill -SEGV $$").failure
    assert failure is not None
    assert (failure.cause, failure.message) == ("signal", "ended by SIGSEGV: nothing on standard error")


@pytest.mark.full
def test_a_flood_on_standard_error_neither_blocks_nor_fills_the_record(measure: Measure) -> None:
    failure = measure("sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1").failure
    assert failure is not None
    assert failure.cause == "exit-status"
    assert len(failure.detail) <= 8_000


@pytest.mark.full
def test_a_script_whose_interpreter_is_missing_cannot_be_started(measure: Measure, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    failure = measure(str(script)).failure
    assert failure is not None
    assert (failure.cause, failure.message) == ("not-installed", "it cannot be started: No such file or directory")


def test_a_command_that_takes_too_long_is_a_timeout(measure: Measure) -> None:
    failure = measure("sleep", "600", timeout=1.0).failure
    assert failure is not None
    assert failure.cause == "timeout"


def test_the_memory_of_the_command_counts_against_the_limit(measure: Measure) -> None:
    failure = measure(sys.executable, "-S", "-c", HOLD, memory=400 << 20).failure
    assert failure is not None
    assert failure.cause == "host-oom"
    assert "its limit of 400 MiB" in failure.message


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps orphans below their reaper")
def test_an_interruption_ends_grandchildren_that_have_left_the_session(
    measure: Measure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    note = tmp_path / "pid"

    def interrupt(_: Watch) -> None:
        if note.exists() and note.read_text().endswith("\n"):
            raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "poll", interrupt)
    with pytest.raises(KeyboardInterrupt):
        measure("sh", "-c", f"setsid sh -c 'echo $$ > {note}; exec sleep 600' & wait; sleep 600")
    grandchild = int(note.read_text())
    wait_until(lambda: not psutil.pid_exists(grandchild))


def test_a_name_follows_from_the_arguments_and_the_version_from_the_program(tmp_path: Path) -> None:
    program = tmp_path / "my tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    name = add_command([str(program), "--flag"])
    assert name.startswith("command:my_tool-")
    before = workloads.get_workload(name).digest
    assert add_command([str(program), "--flag"]) == name
    assert add_command([str(program), "--other"]) != name
    program.write_text("#!/bin/sh\nexit 0\n")
    assert add_command([str(program), "--flag"]) == name
    assert workloads.get_workload(name).digest != before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing follows --"),
        ([""], "nothing follows --"),
        (["no_such_program"], "the command 'no_such_program' is not on the PATH"),
        (["./no_such_program"], "the command './no_such_program' does not exist"),
        ([__file__], f"the command '{__file__[:120]}' cannot be executed"),
        (["true", "\udc80"], "an argument of the command 'true' is not valid UTF-8"),
    ],
)
def test_what_is_no_command_is_refused_in_one_line(arguments: list[str], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        add_command(arguments)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
