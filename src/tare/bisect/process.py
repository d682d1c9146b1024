"""A user's command: an argument vector in its own process group, with a limit. It dies with its parent, however
that ends, and with all of its own children that stay in its group."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PR_SET_PDEATHSIG = 1
# What is kept of the words of a command that failed: of its last lines, the beginning of each.
TAIL, LONGEST_LINE = 300, 200
# Seconds for which the output of a command that was killed is waited for.
PATIENCE = 2.0
# Waits for the end of its input, which comes when the process that holds the other end is gone.
WARDEN = 'read -r _; kill -s KILL -- "-$1"'


class CannotRun(Exception):
    """The command failed; the text is one line. `output` is what it had printed, where it came to an end."""

    def __init__(self, text: str, output: str = "") -> None:
        super().__init__(text)
        self.output = output


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
        with _warden(process.pid):
            output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        raise CannotRun(f"{Path(command[0]).name} took longer than {timeout:g} s") from None
    except BaseException:
        _end(process)
        raise
    seconds = time.perf_counter() - began
    if process.returncode:
        words = last_words((errors or output).decode(errors="replace"))
        said = output.decode(errors="replace")
        raise CannotRun(f"{_ending(process.returncode)}: {words or 'no message'}", said)
    return Done(output.decode(errors="replace"), seconds)


def last_words(text: str) -> str:
    """What a command that failed said last, on one line: whole lines as far as there is room, and of a long one
    the beginning, which says what is wrong; a list of valid values may follow for pages."""
    kept: list[str] = []
    for line in reversed([" ".join(line.split()) for line in text.splitlines() if line.strip()]):
        short = line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 4]} ..."
        if kept and sum(map(len, kept)) + len(kept) + len(short) > TAIL:
            break
        kept.insert(0, short)
    return " ".join(kept)


@contextlib.contextmanager
def _warden(group: int) -> Iterator[None]:
    """Ends a process group if this process is killed. The kernel's signal at a parent's death reaches the command
    alone, not what the command has started; a shell that holds our pipe notices any death, and has nothing else to
    do."""
    theirs, ours = os.pipe()
    try:
        watching = subprocess.Popen(
            ["/bin/sh", "-c", WARDEN, "sh", str(group)],
            stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        try:
            yield
        finally:
            watching.kill()
            watching.wait()
    finally:
        os.close(ours)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        # What has left the group (a build's server) is not ours to end, and may hold the output for ever.
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
        process.wait()


def _last_wish() -> Callable[[], None] | None:
    """A bisection that is killed leaves no command behind to disturb the one that resumes it: this is at once, and
    covers the moment before there is a warden."""
    if sys.platform != "linux":
        return None
    # Loaded here: after a fork there should be nothing left to import.
    library = ctypes.CDLL(None, use_errno=True)

    def set_it() -> None:
        library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    return set_it


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"ended by signal {-code}"
