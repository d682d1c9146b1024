"""Environment variables from the command line."""

import re
from collections.abc import Sequence

from tare.errors import BadInput


def parse_variables(pairs: Sequence[str], option: str) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value:
            raise BadInput(f"{option} takes NAME=VALUE, not '{pair[:60]}'")
        found[name] = value
    return found
