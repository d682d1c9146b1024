"""A user's command: an argument vector in its own process group, with a limit. It dies with its parent, however
that ends, and with all of its own children that stay in its group."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tare.system.processes import dying_with_parent, kill_group, watchdog

# What is kept of the words of a command that failed: of its last lines, the beginning of each.
TAIL, LONGEST_LINE = 300, 200
# Seconds for which the output of a command that was killed is waited for.
PATIENCE = 2.0


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
            preexec_fn=dying_with_parent(),
        )
    except (OSError, ValueError) as error:
        raise CannotRun(f"cannot start {command[0]}: {getattr(error, 'strerror', None) or error}") from None
    try:
        with watchdog(process.pid):
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


def _end(process: subprocess.Popen[bytes]) -> None:
    kill_group(process.pid)
    try:
        process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        # What has left the group (a build's server) is not ours to end, and may hold the output for ever.
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
        process.wait()


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"ended by signal {-code}"
