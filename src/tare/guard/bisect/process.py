"""A user's command: an argument vector in its own process group, with a limit, that dies with its parent."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PR_SET_PDEATHSIG = 1
# What is kept of the words of a command that failed.
TAIL = 300


class CannotRun(Exception):
    """The command failed; the text is one line."""


class Done(NamedTuple):
    output: str
    seconds: float


def run_vector(command: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float) -> Done:
    """Runs it to the end; CannotRun for whatever else happens."""
    began = time.perf_counter()
    try:
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_last_wish(),
        )
    except (OSError, ValueError) as error:
        raise CannotRun(f"cannot start {command[0]}: {getattr(error, 'strerror', None) or error}") from None
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        raise CannotRun(f"{Path(command[0]).name} took longer than {timeout:g} s") from None
    except BaseException:
        _end(process)
        raise
    seconds = time.perf_counter() - began
    if process.returncode:
        words = " ".join((errors or output).decode(errors="replace").split())
        raise CannotRun(f"{_ending(process.returncode)}: {words[-TAIL:] or 'no message'}")
    return Done(output.decode(errors="replace"), seconds)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _last_wish() -> Callable[[], None] | None:
    """A bisection that is killed leaves no command behind to disturb the one that resumes it."""
    if sys.platform != "linux":
        return None
    # Loaded here: after a fork there should be nothing left to import.
    library = ctypes.CDLL(None, use_errno=True)

    def set_it() -> None:
        library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    return set_it


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"ended by signal {-code}"
