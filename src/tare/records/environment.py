"""The environment a record comes from, and how two environments differ."""

import hashlib
from typing import NamedTuple

import msgspec

# Prefix of the flags that come from environment variables.
VARIABLE = "env."


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Flat maps of text. `machine`, `software` and `flags` affect the time of a step and are compared;
    `circumstances` are informative only."""

    machine: dict[str, str]
    software: dict[str, str]
    flags: dict[str, str]
    circumstances: dict[str, str]

    @property
    def id(self) -> str:
        return _digest(self.machine, self.software, self.flags)

    @property
    def base_id(self) -> str:
        """The id without the flags that a worker pins for its case: a round that failed early has none of them."""
        variables = {name: value for name, value in self.flags.items() if name.startswith(VARIABLE)}
        return _digest(self.machine, self.software, variables)


def _digest(*parts: dict[str, str]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:12]


class Difference(NamedTuple):
    """One field that differs between two environments; a value is None where the field is absent."""

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


def environment_differences(a: Environment, b: Environment) -> list[Difference]:
    """Every field that differs; records are comparable where the list is empty."""
    differences = []
    for group in ("machine", "software", "flags"):
        mine, theirs = getattr(a, group), getattr(b, group)
        for name in sorted(mine.keys() | theirs.keys()):
            if mine.get(name) != theirs.get(name):
                differences.append(Difference(group, name, mine.get(name), theirs.get(name)))
    return differences


def difference_lines(a: Environment, b: Environment) -> list[str]:
    return [str(difference) for difference in environment_differences(a, b)]
