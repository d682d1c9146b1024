"""tare run -- COMMAND: any program as a case, from the command line to the views of its records."""

import json
import re
import signal
from pathlib import Path

import pytest
from commandline import planted_tare, start_tare, tare, wait_until

SLEEP = ("--", "sleep", "0.02")


def test_a_command_is_measured_and_shown(tmp_path: Path) -> None:
    done = tare(tmp_path, "run", "--quick", "--budget", "0.3", *SLEEP)
    assert done.returncode == 0, done.stderr
    title, *_ = done.stdout.splitlines()
    assert re.fullmatch(r"command:sleep-[0-9a-f]{8}", title)
    assert "command: sleep 0.02\n" in done.stdout
    assert "the output of a command is not looked at" in done.stdout
    assert "1 of 1 cases measured" in done.stdout
    shown = tare(tmp_path, "show")
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"CPU time of a run +[0-9.]+ \S+ user, [0-9.]+ \S+ system", shown.stdout)
    assert re.search(r"command +sleep 0.02", shown.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--", "no_such_program", "--flag"), "the command 'no_such_program' is not on the PATH"),
        (("--",), "nothing follows --"),
        (("mlp", *SLEEP), "give workloads or, after --, a command, not both"),
        (("--batch", "4", *SLEEP), "--batch is for workloads: a command has its arguments"),
        (("--parity", *SLEEP), "--parity is for workloads: a command has nothing to compare"),
        (("--allow-exit", "x", *SLEEP), "--allow-exit takes positive whole numbers, not 'x'"),
        (("--allow-exit", "1", "mlp"), "--allow-exit is for a command"),
        (("command:sleep-00000000",), "unknown workload 'command:sleep-00000000'"),
    ],
)
def test_what_cannot_be_measured_is_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = tare(tmp_path, "run", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tare: {message}")
    assert done.stderr.count("\n") == 1


@pytest.mark.full
def test_a_dry_run_runs_nothing(tmp_path: Path) -> None:
    note = tmp_path / "note"
    done = tare(tmp_path, "run", "--dry-run", "--json", "--", "touch", str(note))
    assert done.returncode == 0, done.stderr
    (key,) = json.loads(done.stdout)["cases"]
    assert key.startswith("command:touch-")
    assert not note.exists()


@pytest.mark.full
def test_a_failed_command_is_a_failed_case(tmp_path: Path) -> None:
    command = ("--", "sh", "-c", "echo out of luck >&2; exit 4")
    done = tare(tmp_path, "run", "--quick", *command)
    assert done.returncode == 1
    assert "command failed: exit-status in sample: exit status 4: out of luck" in done.stdout
    allowed = tare(tmp_path, "run", "--quick", "--budget", "0.2", "--allow-exit", "3,4", *command)
    assert allowed.returncode == 0, allowed.stderr


@pytest.mark.full
def test_records_of_a_command_are_compared_checked_and_exported(tmp_path: Path) -> None:
    measuring = ("--rounds", "3", "--budget", "0.3")
    for _ in range(2):
        assert tare(tmp_path, "run", *measuring, *SLEEP).returncode == 0
    name = tare(tmp_path, "show").stdout.splitlines()[0]
    compared = tare(tmp_path, "compare", "newest~1", "newest", "--all", "--json")
    (case,) = json.loads(compared.stdout)["cases"]
    assert case["case"].startswith(f"{name}/command/")
    assert {change["metric"] for change in case["changes"]} >= {"gross", "host_peak"}
    history = tare(tmp_path, "history", name)
    assert history.returncode == 0, history.stderr
    assert "2 points" in history.stdout
    assert tare(tmp_path, "baseline", "set", "main").returncode == 0
    checked = tare(tmp_path, "check", "--baseline", "main", "--confirm", "0", *measuring, *SLEEP)
    assert checked.returncode in (0, 1), checked.stderr
    assert name in checked.stdout
    for export in ("csv", "json", "markdown", "pyperf", "svg", "table"):
        done = tare(tmp_path, "export", "--format", export)
        assert done.returncode == 0, (export, done.stderr)
        assert name in done.stdout


@pytest.mark.full
def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    """The command notes each of its runs. Rounds that were complete are not measured again."""
    notes = tmp_path / "runs"
    command = (
        "run",
        "--rounds",
        "3",
        "--budget",
        "0.3",
        "--json",
        "--",
        "sh",
        "-c",
        f"echo >> {notes}; sleep 0.3",
    )
    process = start_tare(tmp_path / "home", *command)
    # A round is a warm-up and three runs: the second round has begun.
    wait_until(lambda: notes.exists() and len(notes.read_text()) >= 5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 130
    process.communicate()
    before = len(notes.read_text())
    resumed = planted_tare(tmp_path / "home", *command[:1], "--resume", *command[1:])
    assert resumed.returncode == 0, resumed.stderr
    (record,) = json.loads(resumed.stdout)["records"]
    assert len(record["rounds"]) == 3
    assert len(notes.read_text()) - before <= 2 * 4
