"""A user's command: split into arguments without a shell, run in its own process group with a time limit.

The command dies with its parent, however that ends, and so do all of its children that stay in its group.
"""

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tare.errors import BadInput
from tare.system.processes import dying_with_parent, kill_group, watchdog

# Characters of a failed command's last lines, and of each of them, that a message quotes.
MAX_TAIL, MAX_LINE = 300, 200
# Seconds to wait for the output of a command that was killed.
OUTPUT_TIMEOUT = 2.0


class CandidateFailed(Exception):
    """A candidate cannot be built or measured; the text is one line. `output` is what a command that came to an
    end had printed."""

    def __init__(self, text: str, output: str = "") -> None:
        super().__init__(text)
        self.output = output


def command_arguments(template: str, values: Mapping[str, str], option: str) -> list[str]:
    """Splits a command as a shell would, and only then fills in each argument: nothing in a label can become a
    second argument or a second command."""
    try:
        parts = shlex.split(template)
    except ValueError as error:
        raise BadInput(f"{option} '{template[:80]}' cannot be split into arguments: {error}") from None
    if not parts:
        raise BadInput(f"{option} is empty")
    return [fill_placeholders(part, values) for part in parts]


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """{} and {label} are the candidate, {dir} its folder, {python} its interpreter; other braces are kept."""
    # One pass over the text: a label that looks like a placeholder is not filled in again.
    placeholders = {"{" + name + "}": value for name, value in {"": values["label"], **values}.items()}
    pattern = re.compile("|".join(map(re.escape, placeholders)))
    return pattern.sub(lambda match: placeholders[match[0]], text)


def run_command(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float) -> str:
    """Runs it to the end and returns its output; CandidateFailed if it cannot start, fails or takes too long. A
    program without a folder is looked up on the PATH of `environment`."""
    try:
        process = subprocess.Popen(
            list(arguments),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=dying_with_parent(),
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CandidateFailed(f"cannot start {arguments[0]}: {reason}") from None
    try:
        with watchdog(process.pid):
            stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _kill(process)
        raise CandidateFailed(f"{Path(arguments[0]).name} took longer than {timeout:g} s") from None
    except BaseException:
        _kill(process)
        raise
    output, code = stdout.decode(errors="replace"), process.returncode
    if code:
        ending = f"exit code {code}" if code > 0 else f"ended by signal {-code}"
        message = last_lines(stderr.decode(errors="replace") or output)
        raise CandidateFailed(f"{ending}: {message or 'no message'}", output)
    return output


def last_lines(text: str) -> str:
    """The last lines of a failed command's output, joined, as far as MAX_TAIL allows. Only the beginning of a long
    line is kept: it names the error, and a list of valid values may follow for pages."""
    kept: list[str] = []
    for line in reversed([" ".join(line.split()) for line in text.splitlines() if line.strip()]):
        short = line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 4]} ..."
        if kept and len(" ".join([short, *kept])) > MAX_TAIL:
            break
        kept.insert(0, short)
    return " ".join(kept)


def _kill(process: subprocess.Popen[bytes]) -> None:
    kill_group(process.pid)
    try:
        process.communicate(timeout=OUTPUT_TIMEOUT)
    except subprocess.TimeoutExpired:
        # A process that has left the group (a build's server) is not ours to end and may hold the output open.
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
        process.wait()
