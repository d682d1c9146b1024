"""A trace as the rules see it: its steps, what lies under an operator or an annotation, places, and prices."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tare.findings.neighbours import Around
from tare.findings.places import Places
from tare.findings.replay import Edit, Timeline
from tare.findings.script import make_script
from tare.trace.intervals import Intervals, make, total, union
from tare.trace.nesting import inherit
from tare.trace.recording_info import marked_time
from tare.trace.tables import SYNC, Integers, Mask, Spans, Trace


class Scene:
    """`gross_s` is the step without a profiler; without it, prices are in profiled time and only shares are firm.
    `rates` are measured ceilings of the machine by name (FLOP/s, bytes/s), as far as they are known."""

    def __init__(
        self, trace: Trace, gross_s: float | None = None, rates: Mapping[str, float] | None = None
    ) -> None:
        self.trace = trace
        self.rates = rates or {}
        self.gross_s = gross_s
        self.places = Places(trace)
        self.around = Around(trace)
        self.script = make_script(trace)
        self._matches: dict[tuple[str, str], Integers] = {}
        if gross_s and self.script.timeline.calls:
            # What the host takes for a step without a profiler, as tare's own traces say.
            host = marked_time(trace, "tare_profiled", "host_ns", below=1e15)
            self.timeline.calibrate(gross_s * self.steps * 1e9, host * self.steps if host else None)

    @property
    def timeline(self) -> Timeline:
        return self.script.timeline

    @property
    def steps(self) -> int:
        """How many steps are looked at."""
        return self.script.steps

    @cached_property
    def step_s(self) -> float:
        """One step as the replay has it: what all shares are shares of."""
        return self.timeline.replay() / self.steps / 1e9

    @property
    def whole_s(self) -> float:
        """One step as it is said: gross, to which the replay comes close, or the replay where that is unknown."""
        return self.gross_s or self.step_s

    def price(self, edit: Edit) -> float:
        """Seconds of one step that the edit gives back."""
        return self.timeline.gain(edit) / self.steps / 1e9

    def drop(self, calls: Integers, *host: list[tuple[int, int]], keep_works: bool = False) -> Edit:
        """An edit in which these calls, what they launched, and these stretches of host time are gone."""
        spans = [span for stretch in host for span in stretch] + spans_of(self.trace.calls, calls, most=len(calls))
        works = [] if keep_works else self.works_of(calls).tolist()
        return Edit(
            removed=merged(spans),
            unwaited=frozenset(self.script.call_at[c] for c in calls.tolist() if c in self.script.call_at),
            factors={self.script.work_at[w]: 0.0 for w in works if w in self.script.work_at},
        )

    def inside(self, table: Spans) -> Mask:
        """The rows that begin within the steps looked at."""
        return (table.start >= self.timeline.start) & (table.start < self.timeline.end)

    def operators(self, *names: str) -> Integers:
        """Rows of operators of these names within the steps."""
        return np.flatnonzero(self.trace.named(self.trace.operators, *names) & self.inside(self.trace.operators))

    def matching(self, table: Spans, pattern: str) -> Integers:
        """Rows within the steps whose name matches."""
        key = (type(table).__name__, pattern)
        if key not in self._matches:
            wanted = re.compile(pattern)
            codes = [code for code, name in enumerate(self.trace.names) if wanted.search(name)]
            self._matches[key] = np.flatnonzero(np.isin(table.name, codes) & self.inside(table))
        return self._matches[key]

    def marked(self, pattern: str) -> Intervals:
        """Host time under annotations or operators whose name matches: the profiler files some under either."""
        trace = self.trace
        return union(*(t.intervals(self.matching(t, pattern)) for t in (trace.annotations, trace.operators)))

    def owners(self, rows: Integers) -> Integers:
        """For each operator the nearest of these rows that it is or lies within, or -1."""
        table = self.trace.operators
        own = np.full(len(table), -1, dtype=np.int64)
        own[rows] = rows
        return inherit(own, table.parent)

    def under(self, rows: Integers) -> Mask:
        """Operators that are one of these or lie within one of them."""
        return np.greater_equal(self.owners(rows), 0)

    def works_by(self, rows: Integers) -> dict[int, list[int]]:
        """Device work by the operator, of these, under which it was launched."""
        device, found = self.trace.device, self.owners(rows)
        known = np.flatnonzero(device.call >= 0)
        operator = self.trace.calls.operator[device.call[known]]
        owner = np.where(operator >= 0, found[np.maximum(operator, 0)], -1) if len(found) else operator
        groups: dict[int, list[int]] = {row: [] for row in rows.tolist()}
        for work, row in zip(known[owner >= 0].tolist(), owner[owner >= 0].tolist(), strict=True):
            groups[row].append(work)
        return groups

    def calls_under(self, rows: Integers) -> Integers:
        """Calls of the runtime made within these operators."""
        operator = self.trace.calls.operator
        if len(rows) == 0:
            return rows
        return np.flatnonzero((operator >= 0) & self.under(rows)[np.maximum(operator, 0)])

    def calls_during(self, table: Any, rows: Integers) -> Integers:
        """Calls made on the same thread during these rows of a table of spans with threads."""
        calls = self.trace.calls
        found = np.zeros(len(calls), dtype=bool)
        for row in rows.tolist():
            within = (calls.start >= table.start[row]) & (calls.end <= table.end[row])
            found |= within & (calls.thread == table.thread[row])
        return np.flatnonzero(found)

    def works_of(self, calls: Integers) -> Integers:
        """Device work launched by these calls."""
        return np.flatnonzero(np.isin(self.trace.device.call, calls))

    @cached_property
    def waits(self) -> Integers:
        """Synchronising calls within the steps, without the one with which a profiler ends its step."""
        rows = np.flatnonzero((self.trace.calls.kind == SYNC) & self.inside(self.trace.calls))
        return rows[~np.isin(rows, list(self.script.closing))]

    def device_s(self, works: Integers) -> float:
        """Seconds a step in which the device did this."""
        return total(self.trace.device.intervals(works)) / self.steps / 1e9

    def device_share(self, works: Integers) -> float:
        return self.device_s(works) / self.step_s if self.step_s > 0 else 0.0

    def roots(self, rows: Integers) -> Integers:
        """The outermost operators around these that are not autograd's engine."""
        found = [self.root(row) for row in rows.tolist() if row >= 0]
        return np.unique(np.array(found, dtype=np.int64))

    def root(self, row: int) -> int:
        """The same for one operator."""
        table = self.trace.operators
        while (above := int(table.parent[row])) >= 0 and "::engine::" not in self.trace.name(table, above):
            row = above
        return row

    def in_every_step(self, table: Spans, rows: Any) -> bool:
        """Whether each of the steps looked at has one of these rows: what happened once is an accident."""
        steps = self.trace.steps
        inside = (steps.start >= self.timeline.start) & (steps.end <= self.timeline.end)
        starts, ends = steps.start[inside], steps.end[inside]
        at = np.sort(table.start[rows])
        return bool((np.searchsorted(at, ends) > np.searchsorted(at, starts)).all()) and len(at) > 0

    def per_step(self, count: int) -> float:
        return count / self.steps

    def times(self, count: int) -> str:
        """How often in words: 'once a step', '15 times a step'."""
        shown = f"{self.per_step(count):.3g}"
        return "once a step" if shown == "1" else f"{shown} times a step"


def spans_of(table: Spans, rows: Integers, most: int = 200) -> list[tuple[int, int]]:
    """The time of these rows, merged, on the trace's clock; of very many the first."""
    united = make(table.start[rows], table.end[rows])
    return [(int(start), int(end)) for start, end in united[:most]]


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if not spans:
        return []
    starts, ends = zip(*spans, strict=True)
    return [(int(start), int(end)) for start, end in make(starts, ends)]
