"""Ctrl-C, kill -9 of the parent, a worker or the fork server, a full disk, a second tare: nothing is lost.

The quick tier kills the parent once; the rest is in the full tier.
"""

import itertools
import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from commandline import Tare, planted_environment, start_tare, wait_until
from stored_rounds import stored_rounds

from tare.execute.executor import WAITING
from tare.store.database import Store
from tare.system.locks import machine_lock

# Rounds long enough to be met by a signal, and few, so that the test is short.
ARGS = ("run", "mlp", "--rung", "eager,torchscript", "--device", "cpu", "--rounds", "3", "--budget", "3",
        "--width", "0.000001", "--no-parity")  # fmt: skip
ROUNDS = 6


def _stored(home: Path) -> dict[tuple[str, int], str]:
    """The series of each stored round, whether its case is finished or not."""
    return {(key, index): series for (_, key, index), series in stored_rounds(home).items()}


def _descendants(pid: int) -> list[psutil.Process]:
    return list(psutil.Process(pid).children(recursive=True))


def ignore_sigint() -> None:
    """As a shell starts `nohup tare run ... &`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _resume(tare: Tare, home: Path, before: dict[tuple[str, int], str]) -> dict[str, Any]:
    """Finishes the plan; what had been measured must be unchanged."""
    done = tare(*ARGS, "--resume", "--json")
    assert done.returncode == 0, done.stderr
    after = _stored(home)
    assert len(after) == ROUNDS
    assert before.items() <= after.items()
    document: dict[str, Any] = json.loads(done.stdout)
    assert len(document["records"]) == 2
    return document


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.full)])
def test_kill_9_of_the_parent_loses_no_round_and_leaves_no_process(home: Path, tare: Tare, jobs: str) -> None:
    running = start_tare(home, *ARGS, "--jobs", jobs)
    wait_until(lambda: len(_stored(home)) >= 3)
    descendants = _descendants(running.pid)
    assert descendants
    running.kill()
    running.wait()
    wait_until(
        lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in descendants), 20
    )
    before = _stored(home)
    assert 3 <= len(before) < ROUNDS
    document = _resume(tare, home, before)
    # Resumed again, nothing is left to measure: the same records come back.
    again = tare(*ARGS, "--resume", "--json")
    assert [r["id"] for r in json.loads(again.stdout)["records"]] == [r["id"] for r in document["records"]]


@pytest.mark.full
@pytest.mark.parametrize(("number", "jobs"), [(signal.SIGINT, "1"), (signal.SIGTERM, "1"), (signal.SIGTERM, "2")])
def test_an_interrupted_run_can_be_resumed(home: Path, tare: Tare, number: signal.Signals, jobs: str) -> None:
    running = start_tare(home, *ARGS, "--jobs", jobs, preexec_fn=ignore_sigint)
    wait_until(lambda: len(_stored(home)) >= 2)
    running.send_signal(number)
    stdout, stderr = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "Traceback" not in stderr
    assert "--resume" in stdout
    _resume(tare, home, _stored(home))


@pytest.mark.full
def test_resuming_without_an_earlier_run_starts_a_new_one(tare: Tare) -> None:
    brief = ("run", "mlp", "--rung", "eager", "--rounds", "1", "--no-parity", "--resume")
    said = [tare(*brief, "--budget", budget).stderr for budget in ("0.1", "0.1", "0.2")]
    assert ["nothing to resume" in text for text in said] == [True, False, True]


@pytest.mark.full
def test_an_interrupted_calibration_or_check_can_be_resumed(home: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[options]\nparity = false\nbudget = 60\n[[grid]]\nworkload = ["mlp"]\nrung = ["eager"]\n')
    for verb in (("calibrate", str(plan)), ("check", str(plan), "--baseline-env", "X=1")):
        had = len(_stored(home))
        running = start_tare(home, *verb)
        wait_until(lambda had=had: len(_stored(home)) > had)  # type: ignore[misc]
        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=30)
        assert running.returncode == 130
        assert "tare: interrupted: the same command with --resume continues" in stderr
        assert "Traceback" not in stderr


@pytest.mark.full
def test_kill_9_of_a_worker_is_recorded(home: Path) -> None:
    running = start_tare(home, *ARGS, "--json")
    wait_until(lambda: len(_stored(home)) >= 2)

    def workers() -> list[psutil.Process]:
        """The children of the reapers, which are children of the fork server."""
        servers = psutil.Process(running.pid).children()
        return [one for server in servers for reaper in server.children() for one in reaper.children()]

    wait_until(lambda: bool(workers()))
    workers()[0].kill()
    stdout, _ = running.communicate(timeout=120)
    records = json.loads(stdout)["records"]
    failures = [r["failure"] for one in records for r in one["rounds"] if r["failure"]]
    assert len(records) == 2
    assert [(f["cause"], f["message"]) for f in failures] == [("signal", "ended by SIGKILL")]


@pytest.mark.full
def test_kill_9_of_the_fork_server_costs_one_round(home: Path) -> None:
    running = start_tare(home, *ARGS, "--json")
    # Both cases have a good round by then, so that neither fails as a whole.
    wait_until(lambda: len(_stored(home)) >= 2)
    psutil.Process(running.pid).children()[0].kill()
    stdout, stderr = running.communicate(timeout=120)
    records = json.loads(stdout)["records"]
    rounds = [done for record in records for done in record["rounds"]]
    assert "Traceback" not in stderr
    assert len(rounds) == ROUNDS
    assert sum(done["failure"] is not None for done in rounds) <= 1
    assert all(record["failure"] is None for record in records)


@pytest.mark.full
def test_a_full_disk_keeps_the_round_elsewhere(home: Path, tare: Tare) -> None:
    home.mkdir()
    with Store(str(home / "records.db")):
        # Enough for the tables, and not for the rounds.
        limit = (home / "records.db").stat().st_size + 50_000

    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    running = start_tare(home, *ARGS, preexec_fn=small_files_only)
    _, stderr = running.communicate(timeout=120)
    assert running.returncode == 1
    assert "Traceback" not in stderr
    complaint = next(line for line in stderr.splitlines() if line.startswith("tare: "))
    assert "--resume" in complaint
    unsaved = list(home.glob("*.unsaved.jsonl"))
    assert len(unsaved) == 1
    assert str(unsaved[0]) in complaint
    before = _stored(home)
    key, kept = json.loads(unsaved[0].read_text())
    before[(key, kept["index"])] = json.dumps(kept["series"])
    _resume(tare, home, before)
    assert not unsaved[0].exists()


@pytest.mark.full
def test_two_runs_at_the_same_time_alternate_and_lose_nothing(home: Path) -> None:
    both = [start_tare(home, *ARGS, "--json") for _ in range(2)]
    documents = [json.loads(one.communicate(timeout=200)[0]) for one in both]
    assert [one.returncode for one in both] == [0, 0]
    spans = []
    for document in documents:
        assert len(document["records"]) == 2
        for record in document["records"]:
            for done in record["rounds"]:
                series = done["series"]
                spans.append((series[0]["at_ns"][0], series[-1]["at_ns"][-1] + series[-1]["wall_ns"][-1]))
    spans.sort()
    assert len(spans) == 2 * ROUNDS
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    with sqlite3.connect(home / "records.db") as database:
        assert database.execute("select count(*) from records").fetchone() == (4,)
    assert os.listdir(home / "scratch") == []  # noqa: PTH208


@pytest.mark.parametrize("more", [pytest.param((), marks=pytest.mark.full), ("--json",)])
def test_a_wait_for_another_tare_is_said_off_a_terminal(home: Path, more: tuple[str, ...]) -> None:
    home.mkdir()
    with machine_lock(home):
        running = start_tare(home, *ARGS, *more)
        assert running.stderr is not None
        line = next(text for text in running.stderr if WAITING in text)
        running.send_signal(signal.SIGTERM)
        _, rest = running.communicate(timeout=60)
    assert re.search(rf"{WAITING}: process {os.getpid()} \(.*\), since \d\d:\d\d:\d\d$", line)
    assert "Traceback" not in rest
    assert running.returncode == 130


def plan_that_is_never_reached(tmp_path: Path) -> str:
    """A pipe that nobody writes to: tare has imported what it needs and reads its plan, for ever."""
    os.mkfifo(tmp_path / "plan.toml")
    return str(tmp_path / "plan.toml")


@pytest.mark.parametrize(
    "moment",
    ["importing", "reading the plan", pytest.param("before the first result", marks=pytest.mark.full)],
)
def test_an_early_interruption_is_said_in_one_line(home: Path, tmp_path: Path, moment: str) -> None:
    arguments = {
        "importing": ("--help",),
        "reading the plan": ("run", plan_that_is_never_reached(tmp_path)),
        "before the first result": ("run", "planted_hang", "--rung", "eager", "--no-parity"),
    }[moment]
    # Not at any moment: before the first line of tare's own, Python itself tells of an interruption.
    patience = "import tare.cli, signal, os; signal.signal(signal.SIGINT, signal.default_int_handler)"
    wait = {
        "importing": "import sys; sys.meta_path.insert(0, Interrupting())",
        "reading the plan": "threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()",
        "before the first result": "threading.Timer(8, os.kill, (os.getpid(), signal.SIGINT)).start()",
    }[moment]
    code = f"{patience}\nimport threading\n{INTERRUPTING}\n{wait}\ntare.cli.main()"
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=planted_environment(home), capture_output=True, text=True, timeout=120)
    assert done.returncode == 130
    # On a quick machine the run has begun by then: it says how to go on.
    begun = "interrupted: the same command with --resume continues from here"
    expected = ["tare: interrupted", begun] if moment == "before the first result" else ["tare: interrupted"]
    assert (done.stdout or done.stderr).splitlines()[-1] in expected
    assert "Traceback" not in done.stderr


# Sends SIGINT while the command line is imported.
INTERRUPTING = """
class Interrupting:
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
"""
