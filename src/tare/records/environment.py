"""The environment a record comes from, and how two environments differ."""

import hashlib
from typing import Annotated, NamedTuple

import msgspec

from tare.system.variables import is_secret

# Prefix of the flags that come from environment variables.
VARIABLE = "env."
# The group of the fields that may differ between records that are compared.
PACKAGES = "packages"
# The packages that a record keeps, and the characters of their names and versions.
MOST_PACKAGES, LONGEST_PACKAGE = 1_000, 200
# Bounds for what a foreign file may bring: characters of a value, and values.
LONGEST_FACT, MOST_FACTS = 10_000, 10_000
Facts = Annotated[
    dict[str, Annotated[str, msgspec.Meta(max_length=LONGEST_FACT)]], msgspec.Meta(max_length=MOST_FACTS)
]


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Flat maps of text. `machine`, `software` and `flags` affect the time of a step and are compared. `packages`,
    the versions of what else a worker has imported, may differ, which is reported. `circumstances` are informative
    only."""

    machine: Facts
    software: Facts
    flags: Facts
    circumstances: Facts
    packages: Facts = {}

    def __post_init__(self) -> None:
        drop_secrets(self.flags)

    @property
    def id(self) -> str:
        return _digest(self.machine, self.software, self.flags)

    @property
    def base_id(self) -> str:
        """The id without the flags that a worker pins for its case: a round that failed early has none of them."""
        variables = {name: value for name, value in self.flags.items() if name.startswith(VARIABLE)}
        return _digest(self.machine, self.software, variables)


def drop_secrets(flags: dict[str, str]) -> None:
    """Removes the variables that look like a secret, and cuts values that could not be read again.
    `tare.measure.environment` collects no secret; a worker that is not ours and a file of another machine may."""
    for flag, value in list(flags.items()):
        if flag.startswith(VARIABLE) and is_secret(flag.removeprefix(VARIABLE), value):
            del flags[flag]
        elif len(value) > LONGEST_FACT:
            flags[flag] = value[:LONGEST_FACT]


def cut_packages(packages: dict[str, str]) -> None:
    """Keeps what a record may hold: a worker that is not ours may send anything."""
    kept = list(packages.items())[:MOST_PACKAGES]
    packages.clear()
    packages |= {name[:LONGEST_PACKAGE]: version[:LONGEST_PACKAGE] for name, version in kept}


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
    """Every field that differs; records are comparable where the list is empty, or names packages alone. What a
    machine that was only probed would import is not known."""
    differences = []
    for group in ("machine", "software", "flags", PACKAGES):
        mine, theirs = getattr(a, group), getattr(b, group)
        if group == PACKAGES and not (mine and theirs):
            continue
        for name in sorted(mine.keys() | theirs.keys()):
            if mine.get(name) != theirs.get(name):
                differences.append(Difference(group, name, mine.get(name), theirs.get(name)))
    return differences


def difference_lines(a: Environment, b: Environment) -> list[str]:
    return [str(difference) for difference in environment_differences(a, b)]
