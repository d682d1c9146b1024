"""One figure of another tool: a benchmark's name, when, where, how much."""

import hashlib
from datetime import UTC, datetime
from statistics import median
from typing import Annotated, Literal

import msgspec

from tare.errors import BadInput
from tare.system.printable import printable

Source = Literal["pyperf", "pytest-benchmark", "google-benchmark"]
Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e300)]
LONGEST_NAME = 400


class ForeignPoint(msgspec.Struct, frozen=True, kw_only=True):
    """`values` are one a process where the tool says so, else one a repetition; the point is their median."""

    source: Source
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
    created: str
    unit: str
    values: Annotated[list[Positive], msgspec.Meta(min_length=1)]
    commit: str | None = None
    # What decides how fast it is there: processor, interpreter. A host's name does not.
    machine: dict[str, str] = {}
    software: dict[str, str] = {}

    @property
    def value(self) -> float:
        return median(self.values)

    @property
    def id(self) -> str:
        """The same result imported twice is one point."""
        return _digest(self)

    @property
    def place(self) -> str:
        return _digest(self.machine)


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds, and which of its benchmarks have no figure, with the reason."""

    source: Source
    points: list[ForeignPoint]
    left_out: dict[str, str] = {}


def when(text: str | None, where: str) -> str:
    """A date as these tools write it, in UTC; one without a zone is taken as UTC."""
    if text is None:
        raise BadInput(f"{where} does not say when it was measured")
    try:
        # Python 3.11 and later read both a blank and a T, and a Z at the end.
        date = datetime.fromisoformat(text.strip())
        aware = date if date.tzinfo else date.replace(tzinfo=UTC)
        return aware.astimezone(UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError):
        raise BadInput(f"{where}: '{text[:40]}' is not a date") from None


def known(**facts: object) -> dict[str, str]:
    """Facts that are there, as short texts."""
    return {name: printable(str(value), 200) for name, value in facts.items() if value not in (None, "", [], {})}


def _digest(document: object) -> str:
    return hashlib.sha256(msgspec.json.encode(document, order="sorted")).hexdigest()[:16]
