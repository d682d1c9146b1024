"""What a comparison found, as data: one change a case and metric. The renderers decide how it looks."""

from typing import Literal

import msgspec

Stage = Literal["first", "confirmed", "not confirmed"]
State = Literal["compared", "broken", "different", "failed", "mended"]


class Change(msgspec.Struct, kw_only=True):
    """One metric of one case: `a` before, `b` now, and their ratio b/a with its interval.

    `verdict` is in the metric's own words: faster, slower, less, more; same; undecided.
    """

    metric: str
    unit: str
    exact: bool
    a: float
    b: float
    ratio: float | None
    low: float | None = None
    high: float | None = None
    # The p-value against "no change", as it is and after allowing for all that was tested together.
    p: float | None = None
    adjusted_p: float | None = None
    rounds_a: int
    rounds_b: int
    paired: bool = False
    method: str = "none"
    set_aside: int = 0
    threshold: float
    margin: float
    verdict: str
    worse: bool = False
    regression: bool = False
    # How many more rounds a side would decide it, as far as one can know.
    more_rounds: int | None = None
    stage: Stage = "first"
    note: str = ""


class Differing(msgspec.Struct, kw_only=True, frozen=True):
    """An operator or kernel that a step calls otherwise than before, with its calls a step; where both sides were
    profiled its seconds in the median step, of the host's time its share of gross."""

    what: Literal["operator", "kernel"]
    name: str
    status: Literal["appeared", "vanished", "slower", "faster", "more calls", "fewer calls"]
    before_calls: float
    after_calls: float
    before_s: float | None = None
    after_s: float | None = None


class CaseChange(msgspec.Struct, kw_only=True):
    """One case on both sides. Only `compared` has changes: what computes something else is never faster."""

    case: str
    state: State
    reason: str = ""
    # Compared by its good rounds; but some failed now, as `reason` says, and none did before.
    newly_failing: bool = False
    changes: list[Change] = []
    leaks: list[str] = []
    # The ids of the two records, before and now.
    records: tuple[str, ...] = ()
    # What the step does otherwise, counted in the records, or seen by profiling both versions.
    differing: list[Differing] = []
    differing_by: Literal["count", "profile"] = "count"

    @property
    def regressions(self) -> list[Change]:
        return [change for change in self.changes if change.regression]

    @property
    def bad(self) -> bool:
        return bool(self.regressions or self.leaks or self.newly_failing) or self.state in ("broken", "different")


class Report(msgspec.Struct, kw_only=True):
    """A whole comparison: who against whom, what differs beside, case by case."""

    a: str
    b: str
    created: str
    cases: list[CaseChange]
    # What differs on purpose, what differs although it should not (with --force), and what to know besides.
    compared: list[str] = []
    forced: list[str] = []
    notes: list[str] = []
    only_a: list[str] = []
    only_b: list[str] = []
    environment: dict[str, str] = {}
    level: float = 0.05
    command: str = ""
    runs: dict[str, str] = {}
    interrupted: bool = False

    @property
    def bad(self) -> list[CaseChange]:
        return [case for case in self.cases if case.bad]

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return 130
        return 1 if self.bad else 0
