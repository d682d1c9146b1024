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

PR_SET_PDEATHSIG = 1
OOM_SCORE = "/proc/self/oom_score_adj"
# Ends a process group when its standard input ends, that is, when the process that holds the other end is gone.
WATCHDOG = 'read -r _; kill -s KILL -- "-$1"'


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signals a process that leads its group, and everything it started that stayed in the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


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


def die_with_parent() -> None:
    """For a worker to call: the kernel kills it when its parent dies, however that happens (Linux only). When
    memory runs out, the kernel should choose the worker and not the parent, which keeps the results."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with contextlib.suppress(OSError), open(OOM_SCORE, "w") as score:  # noqa: PTH123
        score.write("1000")


def dying_with_parent() -> Callable[[], None] | None:
    """The same for a program that is not ours, as the `preexec_fn` of subprocess."""
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
