"""Supervision: time counts only while the parent runs, and a worker that takes too much memory is stopped."""

import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from children import finish, start
from commandline import wait_until

from tare.execute.launch import SpawnLauncher
from tare.execute.oom import OomCounter, OomKills
from tare.execute.rounds import failure_of
from tare.execute.supervise import Supervision, supervise
from tare.protocol.jobs import ProbeJob

TIMEOUT_S = 3.0
WATCH = f"""
import sys
from tare.protocol.jobs import ProbeJob
from tare.execute.launch import SpawnLauncher
from tare.execute.rounds import failure_of
from tare.execute.supervise import Supervision, supervise
printed = []
def on_tick():
    if not printed:
        printed.append(print("watching", flush=True))
process = SpawnLauncher(("sh", "-c", sys.argv[1])).launch(ProbeJob())
failure = failure_of(supervise(process, Supervision({TIMEOUT_S}, on_tick=on_tick)))
print(failure and failure.cause)
"""
WORKER = """
while [ ! -e {folder}/go ]; do sleep 0.02; done
{talk}
echo '{{"kind":"done"}}' >&$TARE_FD
touch {folder}/done
{after}
"""
# More than a pipe holds: the worker blocks until the parent reads again.
LONG = """touch {folder}/done; yes '{{"kind":"stage","name":"sample"}}' | head -n 20000 >&$TARE_FD"""


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="counts on the pipes of Linux")
@pytest.mark.parametrize(
    ("talk", "after"), [("", ""), ("", "sleep 3600"), (LONG, "")], ids=["ends", "stays", "waits"]
)
def test_a_parent_that_was_stopped_does_not_count_that_time(tmp_path: Path, talk: str, after: str) -> None:
    worker = WORKER.format(folder=tmp_path, talk=talk.format(folder=tmp_path), after=after)
    parent = start(WATCH, worker)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "watching\n"
    os.kill(parent.pid, signal.SIGSTOP)
    (tmp_path / "go").touch()
    wait_until((tmp_path / "done").exists)
    time.sleep(TIMEOUT_S + 0.5)
    os.kill(parent.pid, signal.SIGCONT)
    assert finish(parent) == (0, "None\n")


def test_time_in_which_a_worker_is_paused_does_not_count() -> None:
    process = SpawnLauncher(("sleep", "2")).launch(ProbeJob())
    worker_exit = supervise(process, Supervision(0.5, is_paused=lambda: True))
    assert (worker_exit.killed, worker_exit.status) == (None, 0)
    assert worker_exit.seconds < 2


def test_a_worker_that_does_not_exit_after_its_last_message_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.execute.supervise.EXIT_S", 0.2)
    talk = """echo '{"kind":"done"}' > /dev/fd/$TARE_FD; sleep 3600"""
    worker_exit = supervise(SpawnLauncher(("sh", "-c", talk)).launch(ProbeJob()), Supervision(1000))
    assert (worker_exit.killed, failure_of(worker_exit)) == ("timeout", None)


@pytest.mark.parametrize(("left", "stopped"), [(0.01, True), (0.5, False)])
def test_a_worker_is_stopped_when_the_memory_of_the_machine_runs_out(
    monkeypatch: pytest.MonkeyPatch, left: float, stopped: bool
) -> None:
    machine = SimpleNamespace(available=int(left * 2**34), total=2**34)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: machine)
    worker_exit = supervise(SpawnLauncher(("sleep", "3")).launch(ProbeJob()), Supervision(60.0))
    failure = failure_of(worker_exit)
    assert failure is not None
    assert (failure.cause == "host-oom") == stopped
    if stopped:
        assert 0 < worker_exit.resident < 2**28
        assert (
            failure.message
            == f"stopped because host memory ran out; it held {worker_exit.resident / 2**20:.0f} MiB of it"
        )
    else:
        assert failure.cause == "no-result"


PID = 77
# What /proc shows of a process, and the file that counts for it: version 2, and version 1 with an empty version 2.
LAYOUTS = {
    "two": ("0::/user/session\n", "user/session/memory.events", "low 0\noom 3\noom_kill {}\noom_group_kill 9\n"),
    "one": (
        "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n",
        "memory/box/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n",
    ),
}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_count_of_a_control_group_is_separate_from_that_of_the_machine(tmp_path: Path, layout: str) -> None:
    groups, name, text = LAYOUTS[layout]
    membership = write(tmp_path / "proc" / str(PID) / "cgroup", groups)
    write(tmp_path / "proc" / "vmstat", "pgfault 1\noom_kill 5\n")
    counter = write(tmp_path / "groups" / name, text.format(2))
    watch = OomCounter(PID, tmp_path / "proc", tmp_path / "groups")
    assert watch.kills() == OomKills(0, 0)
    write(tmp_path / "proc" / "vmstat", "pgfault 1\noom_kill 6\n")
    assert watch.kills() == OomKills(0, 1), "of another group"
    # The process has ended by the time its count is read.
    membership.unlink()
    counter.write_text(text.format(3))
    assert watch.kills() == OomKills(1, 1)


def test_without_a_control_group_only_the_count_of_the_machine_is_known(tmp_path: Path) -> None:
    write(tmp_path / "vmstat", "oom_kill 5\n")
    watch = OomCounter(PID, tmp_path, tmp_path)
    write(tmp_path / "vmstat", "oom_kill 6\n")
    assert watch.kills() == OomKills(None, 1)
    assert OomCounter(PID, tmp_path / "none", tmp_path / "none").kills() == OomKills(None, 0)


HOG = """
import os, sys
from pathlib import Path
from tare.execute.launch import SpawnLauncher
from tare.protocol.jobs import ProbeJob
from tare.execute.rounds import failure_of
from tare.execute.supervise import Supervision, supervise
(Path(sys.argv[1]) / "cgroup.procs").write_text(str(os.getpid()))
hog = "import os; open('/proc/self/oom_score_adj', 'w').write('1000'); held = bytearray(os.urandom(1 << 20)) * 600"
worker_exit = supervise(SpawnLauncher((sys.executable, "-c", hog)).launch(ProbeJob()), Supervision(120))
print(worker_exit.oom_kills.own, failure_of(worker_exit).message)
"""


def small_group() -> Path | None:
    """A control group with 300 MiB, if one can be made here."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = Path("/sys/fs/cgroup") / ("memory" if controllers else "")
        group = root / path.lstrip("/") / f"tare-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / ("memory.limit_in_bytes" if controllers else "memory.max")).write_text(str(300 * 2**20))
            return group
        except OSError:
            group.rmdir()
    return None


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
def test_an_out_of_memory_kill_is_found_in_the_control_group() -> None:
    group = small_group()
    if group is None:
        pytest.skip("no control group can be made here")
    try:
        status, output = finish(start(HOG, group))
    finally:
        group.rmdir()
    assert status == 0, output
    assert output == "1 the kernel killed the worker because host memory ran out\n"
