"""A user's command: what is kept of its words, and that nothing of it outlives the bisection."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from commandline import wait_until

from tare.bisect.command import CandidateFailed, run_command
from tare.system.text import MAX_LINE, last_lines

# A command whose child does the work: it notes the child's id and waits for it.
PARENT = """
import subprocess
child = subprocess.Popen(["sleep", "600"])
open("child", "w").write(str(child.pid))
child.wait()
"""
BISECTION = """
import os, sys
from pathlib import Path
from tare.bisect.command import run_command
run_command([sys.executable, "-S", "-c", sys.argv[1]], Path.cwd(), os.environ, 600)
"""


def child_of(folder: Path) -> int:
    wait_until(lambda: (folder / "child").exists() and (folder / "child").read_text() != "")
    return int((folder / "child").read_text())


def test_a_killed_bisection_leaves_no_grandchildren(tmp_path: Path) -> None:
    bisection = subprocess.Popen([sys.executable, "-c", BISECTION, PARENT], cwd=tmp_path)
    child = child_of(tmp_path)
    assert psutil.pid_exists(child)
    os.kill(bisection.pid, signal.SIGKILL)
    bisection.wait()
    wait_until(lambda: not _is_running(child))


def test_a_command_that_takes_too_long_ends_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(CandidateFailed, match="longer than 5 s"):
        run_command([sys.executable, "-S", "-c", PARENT], tmp_path, os.environ, 5)
    wait_until(lambda: not _is_running(child_of(tmp_path)))


@pytest.mark.full
def test_what_has_left_the_group_holds_nobody_up(tmp_path: Path) -> None:
    """A server that a build has started keeps the output open; the limit holds all the same."""
    leaving = PARENT.replace('"600"]', '"600"], start_new_session=True')
    with pytest.raises(CandidateFailed, match="longer than 5 s"):
        run_command([sys.executable, "-S", "-c", leaving], tmp_path, os.environ, 5)
    child = child_of(tmp_path)
    assert _is_running(child), "it is not ours to end, and nobody has waited for it"
    os.kill(child, signal.SIGKILL)


def _is_running(pid: int) -> bool:
    """A child that nobody has fetched is a zombie, and runs no more."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_no_warden_is_left_behind(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children()}
    assert run_command([sys.executable, "-S", "-c", "print(7)"], tmp_path, os.environ, 60) == "7\n"
    assert {child.pid for child in psutil.Process().children()} <= before


def test_the_cause_is_kept_of_a_line_that_goes_on_for_pages() -> None:
    line = f"tare: unknown workload 'resnet5' (valid: {', '.join(f'model{i}' for i in range(200))})"
    words = last_lines(f"some noise\n\n{line}\n")
    assert "tare: unknown workload 'resnet5'" in words
    assert len(words) <= MAX_LINE + len("some noise ")


def test_as_many_whole_lines_are_kept_as_there_is_room_for() -> None:
    assert (
        last_lines("Traceback:\n  here\nValueError: no such model\n")
        == "Traceback: here ValueError: no such model"
    )
    assert last_lines("x" * 150 + "\n" + "y" * 150 + "\n" + "z" * 10) == "y" * 150 + " " + "z" * 10
    assert last_lines("\n \n") == ""
