"""The result of a comparison as data: metrics, calls, cases, and the report. Renderers decide how it looks."""

from typing import Literal

import msgspec

from tare.records.figures import good_rounds
from tare.records.record import Record

Stage = Literal["first", "confirmed", "not confirmed"]
State = Literal["compared", "broken", "different", "failed", "fixed"]
CallKind = Literal["operator", "kernel"]
# The exit code of a check that found no regression in what it had time to measure.
OUT_OF_TIME = 3
# Calls of each operator and kernel in one step, by its name.
CallCounts = dict[CallKind, dict[str, int]]


class MetricChange(msgspec.Struct, kw_only=True):
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
    # The p-value against "no change", raw and corrected for all tests of the comparison.
    p: float | None = None
    adjusted_p: float | None = None
    rounds_a: int
    rounds_b: int
    paired: bool = False
    method: str = "none"
    # Pairs of rounds excluded because one of them was an outlier.
    outliers: int = 0
    threshold: float
    margin: float
    verdict: str
    worse: bool = False
    regression: bool = False
    # How many more rounds a side would probably decide it.
    more_rounds: int | None = None
    stage: Stage = "first"
    # Of an undecided change whose interval or p-value alone suggests a verdict: what is missing for it.
    undecided_because: str = ""
    note: str = ""


class CallChange(msgspec.Struct, kw_only=True, frozen=True):
    """An operator or kernel whose calls or time in a step changed, or the host time outside operators (python).
    Seconds are of the median step, and known only where both sides were profiled; host time is scaled to its share
    of gross."""

    kind: CallKind | Literal["python"]
    name: str
    status: Literal["appeared", "vanished", "slower", "faster", "more calls", "fewer calls"]
    before_calls: float
    after_calls: float
    before_s: float | None = None
    after_s: float | None = None


class CaseChange(msgspec.Struct, kw_only=True):
    """One case on both sides. Only `compared` has changes: a case that computes something else is never faster."""

    # The case's family: a report on the next version of a user's model has the same.
    case: str
    state: State
    reason: str = ""
    # The digests of a user's model, before and now.
    sources: tuple[str | None, str | None] = (None, None)
    # Compared by its good rounds, but some rounds failed now (see `reason`) and none failed before.
    newly_failing: bool = False
    changes: list[MetricChange] = []
    leaks: list[str] = []
    # The ids of the two records, before and now.
    records: tuple[str, ...] = ()
    # From the counts in the records, or from profiles of both versions.
    call_changes: list[CallChange] = []
    call_changes_by: Literal["count", "profile"] = "count"

    @property
    def source_change(self) -> str:
        """The digests of a model whose source differs between the sides; empty if it does not."""
        before, now = (source or "none" for source in self.sources)
        return "" if before == now else f"{before} → {now}"

    @property
    def regressions(self) -> list[MetricChange]:
        return [change for change in self.changes if change.regression]

    @property
    def bad(self) -> bool:
        return bool(self.regressions or self.leaks or self.newly_failing) or self.state in ("broken", "different")


class Report(msgspec.Struct, kw_only=True):
    """A whole comparison: the two sides, what else differs between them, and every case."""

    a: str
    b: str
    created: str
    cases: list[CaseChange]
    # Differences of the environments that are the subject, those compared only because of --force, and notes.
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
    # What --max-minutes left: the cases that were not measured as planned, and how far each came.
    unfinished: dict[str, str] = {}
    # Those of a fleet that have measured.
    nodes: list[str] = []

    @property
    def bad(self) -> list[CaseChange]:
        return [case for case in self.cases if case.bad]

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return 130
        return 1 if self.bad else OUT_OF_TIME if self.unfinished else 0


def call_counts(record: Record) -> CallCounts:
    """From the first round that has counted them."""
    rounds = good_rounds(record)
    return {
        "kernel": next((round_.kernels for round_ in rounds if round_.kernels), {}),
        "operator": next((round_.operators for round_ in rounds if round_.operators), {}),
    }


def compare_calls(before: CallCounts, now: CallCounts) -> list[CallChange]:
    """The names whose number of calls changed, the largest difference first, kernels before operators. A kind that
    a side has not counted is left out: not every rung's operators can be seen."""
    changes = []
    for kind in before:
        if not before[kind] or not now.get(kind):
            continue
        for name in before[kind].keys() | now[kind].keys():
            a, b = before[kind].get(name, 0), now[kind].get(name, 0)
            status: Literal["appeared", "vanished", "more calls", "fewer calls"]
            status = "appeared" if not a else "vanished" if not b else "more calls" if b > a else "fewer calls"
            if a != b:
                changes.append(CallChange(kind=kind, name=name, status=status, before_calls=a, after_calls=b))
    return sorted(changes, key=lambda c: (c.kind, -abs(c.after_calls - c.before_calls), c.name))
