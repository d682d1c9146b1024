"""The command under a report, which measures again what it says."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence

from tare.system.variables import STORE, needed_variables, shown_arguments


def reproduce(arguments: Sequence[str], variables: Mapping[str, str] = os.environ) -> str:
    """The command that reproduces a report, with the variables that decide what it measures and where it finds its
    records; without --resume, which would show this machine's rounds, and without --output, which would overwrite
    a file. A report may be published, so no secret is repeated."""
    kept = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            # What follows are the arguments of a command.
            kept += [argument, *remaining]
        elif argument in ("-o", "--output"):
            next(remaining, None)
        elif argument == "--format" and "=" in (name := next(remaining, "")):
            continue
        elif argument == "--format":
            kept += [argument, name]
        elif argument != "--resume" and not re.match("--output=|-o|--format=[^=]*=", argument):
            kept.append(argument)
    needed = needed_variables(variables, measures=arguments[:1] != ["compare"])
    if any(argument.partition("=")[0] == "--store" for argument in kept):
        needed.pop(STORE, None)
    settings = [f"{name}={shlex.quote(value)}" for name, value in needed.items()]
    return " ".join([*settings, shlex.join(["tare", *shown_arguments(kept)])])
