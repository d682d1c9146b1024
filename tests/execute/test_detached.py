"""Whatever a worker started ends with it: also what left its session, was orphaned, or lost its reaper.

All processes here are real. A detached process leaves a file that is named by its pid, and ignores what it can.
"""

import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from children import start
from commandline import wait_until

from tare.execute.launch import MARKER, SpawnLauncher
from tare.execute.rounds import failure_of
from tare.execute.supervise import Supervision, WorkerExit, run_worker
from tare.protocol.jobs import ProbeJob
from tare.system.processes import kill_marked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps orphans below their reaper")

# The ways to start a process that is in no group, session or family with the worker, and what it does then.
WORKER = """
import os, signal, sys, time
folder, kind = sys.argv[1:]

def linger():
    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    os.closerange(0, 256)
    with open(os.path.join(folder, f"{os.getpid()}.part"), "w") as note:
        pass
    os.rename(note.name, note.name.replace(".part", ".pid"))
    time.sleep(3600)
    os._exit(0)

def setsid():
    if os.fork() == 0:
        os.setsid()
        linger()

def double_fork():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            linger()
        os._exit(0)

def program():
    "Another program, orphaned, without our environment."
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, "-S", __file__, folder, "linger"], {})
        os._exit(0)

def generations():
    "Three, each in a session of its own."
    for _ in range(3):
        if os.fork():
            break
        os.setsid()
    if os.getpid() != worker:
        linger()

def chain():
    "Processes that live until they have forked the next."
    if os.fork() == 0:
        os.setsid()
        open(os.path.join(folder, f"{os.getpid()}.pid"), "w").close()
        while True:
            if os.fork():
                os._exit(0)

def crowd():
    for _ in range(50):
        setsid()

worker = os.getpid()
globals()[kind]()
while len([name for name in os.listdir(folder) if name.endswith(".pid")]) < (3 if kind == "generations" else 1):
    time.sleep(0.01)
"""
ENDS = {
    "fails": ("sys.exit(3)", "the worker exited with code 3 and no result"),
    "aborts": ("os.abort()", "ended by SIGABRT"),
    "hangs": ("time.sleep(3600)", "stopped after 3 s"),
    "stops itself": (
        "os.kill(worker, signal.SIGSTOP)", "stopped after 3 s; it had been stopped by a signal (SIGSTOP)"
    ),
    "kills its parent": (
        "os.kill(os.getppid(), signal.SIGKILL); time.sleep(3600)",
        "ended by SIGKILL: its parent process was killed",
    ),
    "stops its parent": (
        "os.kill(os.getppid(), signal.SIGSTOP); time.sleep(3600)",
        "ended because its parent process had been stopped by a signal (SIGSTOP)",
    ),
    "stops its parent and ends": (
        "os.kill(os.getppid(), signal.SIGSTOP)",
        "ended because its parent process had been stopped by a signal (SIGSTOP)",
    ),
}  # fmt: skip

SLOW = ("hangs", "stops itself", "stops its parent", "stops its parent and ends")


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Path]:
    """The folder of the pids. Whatever a failed test leaves is killed."""
    folder = tmp_path / "notes"
    folder.mkdir()
    yield folder
    for pid in alive(folder):
        os.kill(pid, signal.SIGKILL)


def alive(notes: Path) -> list[int]:
    """Those of the detached processes that still run."""
    running = []
    for path in notes.glob("*.pid"):
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(int(path.stem)).status() != psutil.STATUS_ZOMBIE:
                running.append(int(path.stem))
    return running


def command(notes: Path, kind: str, end: str = "") -> tuple[str, ...]:
    program = notes.parent / "worker.py"
    program.write_text(WORKER + end)
    return sys.executable, "-S", str(program), str(notes), kind


def run(notes: Path, kind: str, end: str = "", timeout_s: float = 60.0) -> WorkerExit:
    return run_worker(SpawnLauncher(command(notes, kind, end)), ProbeJob(), Supervision(timeout_s))


@pytest.mark.parametrize("kind", ["setsid", "double_fork", "program", "generations"])
def test_a_detached_process_has_ended_when_its_worker_has(notes: Path, kind: str) -> None:
    worker_exit = run(notes, kind)
    assert worker_exit.status == 0
    assert len(list(notes.glob("*.pid"))) == (3 if kind == "generations" else 1)
    assert alive(notes) == []


@pytest.mark.parametrize("end", [pytest.param(e, marks=[pytest.mark.full] if e in SLOW else []) for e in ENDS])
def test_it_ends_however_the_worker_ends(notes: Path, end: str) -> None:
    code, message = ENDS[end]
    before = time.monotonic()
    failure = failure_of(run(notes, "double_fork", code, timeout_s=3))
    assert failure is not None
    assert failure.message == message
    assert len(list(notes.glob("*.pid"))) == 1
    # Where the reaper was killed, the marker in the environment leads to what it had below it.
    wait_until(lambda: alive(notes) == [], 10)
    assert time.monotonic() - before < 60, "long before the hour that the worker wanted"


PARENT = """
import sys
from tare.execute.launch import SpawnLauncher
from tare.execute.supervise import Supervision, run_worker
from tare.protocol.jobs import ProbeJob
run_worker(SpawnLauncher(tuple(sys.argv[1:])), ProbeJob(), Supervision(3600))
"""


@pytest.mark.parametrize("kind", ["chain", "crowd"])
def test_many_processes_end_as_one_does(notes: Path, kind: str) -> None:
    assert run(notes, kind).status == 0
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(notes) in process.cmdline():
                left.append(process.pid)
    assert left == []


def test_it_ends_when_tare_is_killed(notes: Path) -> None:
    parent = start(PARENT, *command(notes, "double_fork", "time.sleep(3600)"))
    wait_until(lambda: len(alive(notes)) == 1)
    parent.kill()
    parent.communicate()
    wait_until(lambda: alive(notes) == [], 20)


def test_a_process_is_found_by_the_marker_that_it_inherited(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For systems that do not keep orphans below their reaper."""
    monkeypatch.setattr(sys, "platform", "darwin")
    worker_exit = run(notes, "setsid")
    assert worker_exit.status == 0
    wait_until(lambda: alive(notes) == [], 10)
    kill_marked(MARKER, "nobody's")
    assert psutil.pid_exists(os.getpid())


def test_memory_of_a_detached_process_counts(notes: Path) -> None:
    """A worker cannot evade its limit by giving the memory to a process of another session."""
    hog = "held = bytearray(os.urandom(4096)) * 51200\n    os.closerange(0, 256)"
    program = notes.parent / "worker.py"
    program.write_text(WORKER.replace("os.closerange(0, 256)", hog) + "time.sleep(3600)")
    launcher = SpawnLauncher((sys.executable, "-S", str(program), str(notes), "double_fork"))
    worker_exit = run_worker(launcher, ProbeJob(), Supervision(60, memory_limit=150 * 2**20))
    failure = failure_of(worker_exit)
    assert failure is not None
    assert failure.cause == "host-oom"
    assert alive(notes) == []


def test_no_process_and_no_descriptor_is_left(notes: Path) -> None:
    run(notes, "double_fork")
    process = psutil.Process()
    before, children = process.num_fds(), process.children()
    for _ in range(3):
        run(notes, "double_fork")
    assert (process.num_fds(), process.children()) == (before, children)


def test_a_program_that_is_not_there_is_said(notes: Path) -> None:
    worker_exit = run_worker(SpawnLauncher(("/no/such/program",)), ProbeJob(), Supervision(60))
    failure = failure_of(worker_exit)
    assert failure is not None
    assert failure.message == "cannot start /no/such/program: No such file or directory"
    assert (failure.cause, alive(notes)) == ("not-installed", [])


@pytest.mark.parametrize("free", range(0, 14, 2))
def test_without_free_descriptors_the_round_fails_and_nothing_leaks(notes: Path, free: int) -> None:
    launcher = SpawnLauncher(command(notes, "double_fork"))
    # Other tests may have left descriptors and processes that their fixtures still need.
    before = (psutil.Process().num_fds(), psutil.Process().children())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 64, limits[1]))
    opened: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        for descriptor in opened[:free]:
            os.close(descriptor)
        worker_exit = run_worker(launcher, ProbeJob(), Supervision(60))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in opened[free:]:
            os.close(descriptor)
    failure = failure_of(worker_exit)
    assert failure is not None
    if free < 6:
        assert (failure.cause, failure.message) == ("exception", "cannot start a worker: Too many open files")
    assert (psutil.Process().num_fds(), psutil.Process().children()) == before
