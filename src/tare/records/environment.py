"""The environment a record comes from, and whether two of them may be compared."""

import hashlib

import msgspec


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
        text = msgspec.json.encode([self.machine, self.software, self.flags], order="sorted")
        return hashlib.sha256(text).hexdigest()[:12]


def differences(a: Environment, b: Environment) -> list[str]:
    """What differs between two environments, a line each; none means their records are comparable."""
    lines = []
    for group in ("machine", "software", "flags"):
        mine, theirs = getattr(a, group), getattr(b, group)
        for name in sorted(mine.keys() | theirs.keys()):
            if mine.get(name) != theirs.get(name):
                lines.append(f"{group}.{name}: {mine.get(name, 'absent')} against {theirs.get(name, 'absent')}")
    return lines
