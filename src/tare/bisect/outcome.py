"""What a bisection found, as data."""

from typing import Any

import msgspec

from tare.bisect.journal import Skipped
from tare.stats.search import Verdict


class Found(msgspec.Struct, kw_only=True):
    """One culprit. `suspects` holds more than one label where those between could not be built or run."""

    culprit: str
    title: str
    parent: str
    suspects: list[str]
    probability: float
    # None where the parent's figure is zero.
    ratio: float | None
    low: float | None
    high: float | None
    before: float
    after: float
    runs: tuple[int, int]
    # What differs between the two: environment, packages, figures, files.
    changed: list[str] = []


class Outcome(msgspec.Struct, kw_only=True):
    verdict: Verdict
    kind: str
    good: str
    bad: str
    # The bad end over the good end.
    ratio: float | None
    low: float | None
    high: float | None
    candidates: int
    runs: int
    measured: dict[str, int]
    culprits: list[Found]
    # Where nothing is certain, the labels a change most probably entered with.
    probable: dict[str, float] = {}
    skipped: list[Skipped]
    journal: str
    noise: float | None = None
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return 130
        return 0 if self.verdict == "found" else 1

    def document(self) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self))
