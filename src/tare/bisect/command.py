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
from tare.system.redaction import redact
from tare.system.text import last_lines

# Seconds to wait for the output of a command that was killed.
OUTPUT_TIMEOUT = 2.0


class CandidateFailed(Exception):
    """A candidate cannot be built or measured; the text is one line, without the secrets that a command may have
    printed. `output` is what a command that came to an end had printed."""

    def __init__(self, text: str, output: str = "") -> None:
        super().__init__(redact(text))
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
