"""The process timer: what it says of one run of a command, and what it leaves behind."""

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from commandline import wait_until

from tare.system.process_timer import ProcessRun, run_once

RunOnce = Callable[..., ProcessRun]


@pytest.fixture
def stderr() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture
def run(stderr: tuple[int, int]) -> RunOnce:
    return lambda *arguments: run_once([os.fsencode(argument) for argument in arguments], stderr[1])


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", -signal.SIGSEGV)])
def test_the_status_is_that_of_the_command(run: RunOnce, script: str, status: int) -> None:
    assert run("sh", "-c", script).status == status


def test_a_run_lasts_from_the_start_of_the_process_to_its_end(run: RunOnce) -> None:
    finished = run("sleep", "0.05")
    assert finished.wall_ns >= 50_000_000
    assert finished.at_ns > 0


def test_a_program_that_cannot_be_started_is_an_error_and_no_run(run: RunOnce) -> None:
    assert run("/no/such/program") == ProcessRun(error=errno.ENOENT)


def test_the_memory_and_the_cpu_time_of_children_that_were_waited_for_count(run: RunOnce) -> None:
    heavy = "x = bytearray(300 << 20); sum(range(2_000_000))"
    finished = run("sh", "-c", f"{sys.executable} -S -c '{heavy}'; exit 0")
    assert finished.peak >= 300 << 20
    assert finished.user_us + finished.system_us > 0


def test_only_standard_error_is_kept(
    run: RunOnce, stderr: tuple[int, int], capfd: pytest.CaptureFixture[str]
) -> None:
    run("sh", "-c", "cat; echo to stdout; echo to stderr >&2")
    assert os.read(stderr[0], 100) == b"to stderr\n"
    assert capfd.readouterr().out == ""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_command_does_not_inherit_that_python_ignores_sigpipe(run: RunOnce) -> None:
    # Signal 13 is the lowest bit of the fourth digit from the right.
    assert run("grep", "-q", "^SigIgn:.*[02468ace]...$", "/proc/self/status").status == 0


def test_what_a_run_leaves_in_its_group_is_ended(run: RunOnce, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    run("sh", "-c", f"sleep 600 & echo $! > {note}")
    child = int(note.read_text())
    wait_until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
