"""The environment a record comes from, and whether two of them may be compared."""

import hashlib
from typing import NamedTuple

import msgspec

# How flags that come from environment variables are named.
VARIABLE = "env."


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Flat maps of text, so that any two can be compared field by field and any reader can print them.

    `machine`, `software` and `flags` decide what a step takes; `circumstances` are noted but not compared.
    """

    machine: dict[str, str]
    software: dict[str, str]
    flags: dict[str, str]
    circumstances: dict[str, str]

    @property
    def id(self) -> str:
        return _digest(self.machine, self.software, self.flags)

    @property
    def place(self) -> str:
        """The environment without the flags that a worker pins for its case (one that failed early has none)."""
        return _digest(
            self.machine, self.software, {name: v for name, v in self.flags.items() if name.startswith(VARIABLE)}
        )


def _digest(*parts: dict[str, str]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:12]


class Difference(NamedTuple):
    """One field that differs between two environments; the values are None where it is absent."""

    group: str
    name: str
    mine: str | None
    theirs: str | None

    @property
    def field(self) -> str:
        return f"{self.group}.{self.name}"

    def __str__(self) -> str:
        mine, theirs = (value if value is not None else "absent" for value in (self.mine, self.theirs))
        return f"{self.field}: {mine} against {theirs}"


def differing(a: Environment, b: Environment) -> list[Difference]:
    """Every field that differs between two environments; none means their records are comparable."""
    found = []
    for group in ("machine", "software", "flags"):
        mine, theirs = getattr(a, group), getattr(b, group)
        for name in sorted(mine.keys() | theirs.keys()):
            if mine.get(name) != theirs.get(name):
                found.append(Difference(group, name, mine.get(name), theirs.get(name)))
    return found


def differences(a: Environment, b: Environment) -> list[str]:
    """What differs between two environments, a line each."""
    return [str(difference) for difference in differing(a, b)]
