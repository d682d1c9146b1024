"""Starting and ending processes: every one that tare starts leads a group of its own, which ends as a whole."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import psutil

from tare.system.reaper import PR_SET_PDEATHSIG

# Ends a process group when its standard input ends, that is, when the process that holds the other end is gone.
WATCHDOG = 'read -r _; kill -s KILL -- "-$1"'


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signals a process that leads its group, and everything it started that stayed in the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def signal_name(number: int) -> str:
    """SIGSEGV for 11; real-time signals have no name."""
    return signal.Signals(number).name if number in signal.Signals._value2member_map_ else f"signal {number}"


def kill_group(pid: int) -> None:
    signal_group(pid, signal.SIGKILL)


def kill_session(leader: int) -> None:
    """Kills every process of a session: Ninja gives each compiler a process group of its own.

    The second pass finds what was started during the first one, when nothing is left that could start more.
    """
    for _ in range(2):
        for pid in psutil.pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getsid(pid) == leader:
                    os.kill(pid, signal.SIGKILL)


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a process."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False


def kill_marked(name: str, value: str) -> None:
    """Kills every process of this user that has inherited an environment variable with this value. A process that
    changed its environment before it started another program is not found."""
    for _ in range(2):
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(name) == value:
                    process.kill()


def dying_with_parent() -> Callable[[], None] | None:
    """For a program that is not ours, as the `preexec_fn` of subprocess: the kernel kills it when this process
    dies, however that happens (Linux only)."""
    if sys.platform != "linux":
        return None
    # Loaded before the fork: after it there should be nothing left to import.
    library = ctypes.CDLL(None, use_errno=True)
    return lambda: library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def watchdog(group: int) -> Iterator[None]:
    """Kills a process group if this process is killed.

    The kernel's signal at a parent's death reaches the child alone, not the processes that the child has started.
    A shell that holds our pipe notices our death and kills them all.
    """
    theirs, ours = os.pipe()
    try:
        shell = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "sh", str(group)],
            stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        try:
            yield
        finally:
            shell.kill()
            shell.wait()
    finally:
        os.close(ours)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT and SIGTERM raise KeyboardInterrupt, also where SIGINT was ignored at the start (`nohup`, `&`). Only
    the main thread can handle signals; in another one nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
