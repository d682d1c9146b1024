"""A command as a workload: any program with its arguments. One step is one run of it.

A command is known to the process that was given it, and to nobody else: the job of a worker holds its arguments.
"""

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.errors import BadInput
from tare.workloads.registry import get_workload, workload

# The rung of every command, and the beginning of its name as a workload.
COMMAND = "command"
# Characters of the program's name in that of the workload.
LONGEST_NAME = 60


@dataclass
class Command:
    """`allowed` are the exit statuses with which it succeeds."""

    arguments: tuple[str, ...]
    allowed: tuple[int, ...] = (0,)


def add_command(arguments: Sequence[str]) -> str:
    """Registers a command, and returns its name as a workload, which follows from its arguments. BadInput for a
    program that does not exist or cannot be executed."""
    if not arguments or not arguments[0]:
        raise BadInput(
            "nothing follows --: want a command and its arguments, as in: tare run -- ./my_binary --flag"
        )
    program = arguments[0]
    try:
        text = json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadInput(f"an argument of the command {ascii(program)[:120]} is not valid UTF-8") from None
    path = shutil.which(program)
    if path is None:
        is_there = "/" in program and Path(program).exists()
        reason = "cannot be executed" if is_there else "does not exist" if "/" in program else "is not on the PATH"
        raise BadInput(f"the command '{program[:120]}' {reason}")
    base = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(program).name)[:LONGEST_NAME]
    name = f"{COMMAND}:{base}-{_digest(text)}"
    digest = None
    # A program may be executable and not readable.
    with contextlib.suppress(OSError):
        digest = _digest(Path(path).read_bytes())
    register = workload(name, domain="other", task=COMMAND, source="the command line", batch=1, digest=digest)
    register(Command(tuple(arguments)))
    return name


def allow_statuses(name: str, statuses: Sequence[int]) -> None:
    """The command of this name succeeds with these exit statuses too."""
    command = get_command(name)
    command.allowed = (*command.allowed, *statuses)


def is_command(name: str) -> bool:
    return name.startswith(f"{COMMAND}:")


def get_command(name: str) -> Command:
    command: Command = get_workload(name).definition
    return command


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]
