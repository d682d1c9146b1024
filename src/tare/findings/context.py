"""A trace as the rules see it: the steps that are examined, queries over its tables, locations and savings."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from tare.findings.replay import Span, WhatIf, replay_of
from tare.trace.counting import product
from tare.trace.intervals import Intervals, make, total, union
from tare.trace.metadata import metadata_time
from tare.trace.tables import DIRECTIONS, SYNC, Integers, Mask, Spans, Trace

# A product that takes this long at the peak rate comes near it: on an H200 one of 4096 (0.2 ms in bfloat16) is
# within a tenth of the rate of one of 8192, with which the peak is measured. What smaller ones reach is unknown.
LONG_PRODUCT_S = 100e-6
# An operator and its neighbour have at most this many operators between them, nested in one of the two.
_FARTHEST_NEIGHBOUR = 400
_MODULE = "nn.Module: "


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """Where it happens: a source line or module if the profiler recorded stacks, else the operators around it.

    `count` and `seconds` are per step, as the profiled host or device spent them.
    """

    where: str
    count: float
    seconds: float


class Context:
    """`gross_s` is the step without a profiler; without it savings are in profiled time and only shares are
    reliable. `rates` are measured peaks of the machine by name (FLOP/s, bytes/s), as far as they are known."""

    def __init__(
        self, trace: Trace, gross_s: float | None = None, rates: Mapping[str, float] | None = None
    ) -> None:
        self.trace, self.gross_s, self.rates = trace, gross_s, rates or {}
        self.locator, self.neighbours = Locator(trace), Neighbours(trace)
        recorded = replay_of(trace)
        self.replay, self.steps, self.profiler_syncs = recorded.replay, recorded.steps, recorded.profiler_syncs
        self._call_index, self._activity_index = recorded.call_index, recorded.activity_index
        self._matches: dict[tuple[str, str], Integers] = {}
        if gross_s and self.replay.calls:
            # Traces that tare recorded itself state what the host takes for a step without a profiler.
            host = metadata_time(trace, "tare_profiled", "host_ns", below=1e15)
            self.replay.calibrate(gross_s * self.steps * 1e9, host * self.steps if host else None)

    # Savings

    @cached_property
    def step_s(self) -> float:
        """One step as the replay has it: what all shares are shares of."""
        return self.replay.run() / self.steps / 1e9

    @property
    def reported_step_s(self) -> float:
        """Gross, which the replay approximates; the replayed step where gross is unknown."""
        return self.gross_s or self.step_s

    def saving(self, what_if: WhatIf) -> float:
        """Seconds of one step that the change saves. Its calls and activities are rows of the trace's tables; rows
        outside of the examined steps have no effect."""
        calls, activities = self._call_index, self._activity_index
        indexed = WhatIf(
            removed=merged(what_if.removed),
            unwaited=frozenset(calls[row] for row in what_if.unwaited if row in calls),
            factors={activities[row]: f for row, f in what_if.factors.items() if row in activities},
            detached=frozenset(activities[row] for row in what_if.detached if row in activities),
            handover=what_if.handover,
        )
        return self.replay.saving(indexed) / self.steps / 1e9

    def without(self, calls: Integers, *host: list[Span]) -> WhatIf:
        """The change in which these calls, what they launched, and these stretches of host time are gone."""
        return WhatIf(
            removed=[span for stretch in host for span in stretch] + spans_of(self.trace.calls, calls),
            unwaited=frozenset(calls.tolist()),
            factors=dict.fromkeys(self.activities_of(calls).tolist(), 0.0),
        )

    def reaches_peak(self, flops: Sequence[int | None], rate: float | None) -> bool:
        """Whether products of these operation counts come near the peak rate, so that a saving computed from it is
        an estimate and not a bound."""
        return rate is not None and all(count is not None and count / rate >= LONG_PRODUCT_S for count in flops)

    # Rows of the trace's tables

    def inside(self, table: Spans) -> Mask:
        """The rows that start within the examined steps."""
        return (table.start >= self.replay.start) & (table.start < self.replay.end)

    @cached_property
    def launched(self) -> Mask:
        """The device activities that were launched within the examined steps."""
        return np.isin(self.trace.device.call, list(self._call_index))

    def operators(self, *names: str) -> Integers:
        """Operators of these names within the steps."""
        return np.flatnonzero(self.trace.named(self.trace.operators, *names) & self.inside(self.trace.operators))

    def matching(self, table: Spans, pattern: str) -> Integers:
        """Rows within the steps whose name matches the regular expression."""
        key = (type(table).__name__, pattern)
        if key not in self._matches:
            wanted = re.compile(pattern)
            codes = [code for code, name in enumerate(self.trace.names) if wanted.search(name)]
            self._matches[key] = np.flatnonzero(np.isin(table.name, codes) & self.inside(table))
        return self._matches[key]

    def marked(self, pattern: str) -> Intervals:
        """Host time under annotations or operators whose name matches: the profiler files some marks under
        either."""
        trace = self.trace
        return union(*(t.intervals(self.matching(t, pattern)) for t in (trace.annotations, trace.operators)))

    def owners(self, rows: Integers) -> Integers:
        """For each operator the nearest of these that it is or lies within, or -1."""
        table = self.trace.operators
        own = np.full(len(table), -1, dtype=np.int64)
        own[rows] = rows
        return table.inherit(own)

    def under(self, rows: Integers) -> Mask:
        """The operators that are one of these or lie within one of them."""
        return np.greater_equal(self.owners(rows), 0)

    def roots(self, rows: Integers) -> Integers:
        """The outermost operators around these that are not autograd's engine."""
        return np.unique(np.array([self.root(row) for row in rows.tolist() if row >= 0], dtype=np.int64))

    def root(self, row: int) -> int:
        table = self.trace.operators
        while (parent := int(table.parent[row])) >= 0 and "::engine::" not in self.trace.name(table, parent):
            row = parent
        return row

    def calls_under(self, rows: Integers) -> Integers:
        """Runtime calls made within these operators."""
        operator = self.trace.calls.operator
        if len(rows) == 0:
            return rows
        return np.flatnonzero((operator >= 0) & self.under(rows)[np.maximum(operator, 0)])

    def calls_during(self, table: Any, rows: Integers) -> Integers:
        """Runtime calls made on the same thread during these rows of a table with threads."""
        calls = self.trace.calls
        chosen = np.zeros(len(calls), dtype=bool)
        for row in rows.tolist():
            within = (calls.start >= table.start[row]) & (calls.end <= table.end[row])
            chosen |= within & (calls.thread == table.thread[row])
        return np.flatnonzero(chosen)

    def activities_of(self, calls: Integers) -> Integers:
        """Device activities launched by these calls."""
        return np.flatnonzero(np.isin(self.trace.device.call, calls))

    def activities_by(self, rows: Integers) -> dict[int, list[int]]:
        """Device activities by the operator, of these, under which they were launched."""
        device, owners = self.trace.device, self.owners(rows)
        known = np.flatnonzero(device.call >= 0)
        operator = self.trace.calls.operator[device.call[known]]
        owner = np.where(operator >= 0, owners[np.maximum(operator, 0)], -1) if len(owners) else operator
        groups: dict[int, list[int]] = {row: [] for row in rows.tolist()}
        for activity, row in zip(known[owner >= 0].tolist(), owner[owner >= 0].tolist(), strict=True):
            groups[row].append(activity)
        return groups

    @cached_property
    def syncs(self) -> Integers:
        """Synchronising calls within the steps, without those with which a profiler ends its steps."""
        rows = np.flatnonzero((self.trace.calls.kind == SYNC) & self.inside(self.trace.calls))
        return rows[~np.isin(rows, list(self.profiler_syncs))]

    def in_every_step(self, table: Spans, rows: Any) -> bool:
        """Whether each examined step has one of these rows: what happened once is an accident."""
        steps = self.trace.steps
        inside = (steps.start >= self.replay.start) & (steps.end <= self.replay.end)
        starts, ends = steps.start[inside], steps.end[inside]
        at = np.sort(table.start[rows])
        return bool((np.searchsorted(at, ends) > np.searchsorted(at, starts)).all()) and len(at) > 0

    # Figures per step

    def per_step(self, count: int) -> float:
        return count / self.steps

    def times(self, count: int) -> str:
        """How often in words: 'once a step', '15 times a step'."""
        shown = f"{self.per_step(count):.3g}"
        return "once a step" if shown == "1" else f"{shown} times a step"

    def seconds(self, table: Spans, rows: Any) -> float:
        """Durations of these rows added up, per step."""
        return float(table.duration[rows].sum()) / self.steps / 1e9

    def device_s(self, activities: Integers) -> float:
        """Seconds of a step in which any of these ran."""
        return total(self.trace.device.intervals(activities)) / self.steps / 1e9

    def device_share(self, activities: Integers) -> float:
        return self.device_s(activities) / self.step_s if self.step_s > 0 else 0.0

    # Locations

    def call_locations(self, calls: Integers) -> list[Location]:
        """The calls by location, with their host time."""
        table = self.trace.calls
        return [
            Location(where=where, count=self.per_step(len(rows)), seconds=self.seconds(table, rows))
            for where, rows in self.locator.of_calls(calls).items()
        ]

    def copy_locations(self, copies: Integers) -> list[Location]:
        """Copies by the location of the call that launched them, each direction for itself."""
        device = self.trace.device
        locations = []
        for direction in np.unique(device.direction[copies]).tolist():
            same = copies[device.direction[copies] == direction]
            for where, calls in self.locator.of_calls(np.unique(device.call[same])).items():
                rows = same[np.isin(device.call[same], calls)]
                label = f"{where}: {DIRECTIONS[direction]}" if direction >= 0 else where
                locations.append(self.device_location(label, rows))
        return locations

    def device_location(self, where: str, activities: Any) -> Location:
        rows = np.asarray(activities)
        return Location(where=where, count=self.per_step(len(rows)), seconds=self.device_s(rows))

    def product_location(self, row: int, activity: int) -> str:
        """The shape of a matrix product, and where it is computed; `activity` is one of its kernels."""
        where, shape = self.locator.of_call(int(self.trace.device.call[activity])), product(self.trace, row)
        if shape is None:
            return where
        return f"{'x'.join(map(str, (shape.batch, shape.m, shape.k, shape.n)))} at {where}"


class Locator:
    """Names locations. A line is the first of its function: the profiler records no other."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def of_call(self, row: int) -> str:
        calls = self._trace.calls
        return self.line_of_call(row) or self.path(int(calls.operator[row])) or self._trace.name(calls, row)

    def line_of_call(self, row: int) -> str:
        """The user's line and module; empty without stacks."""
        calls = self._trace.calls
        frame = int(calls.frame[row])
        return self._text(frame if frame >= 0 else self._forward_frame(int(calls.operator[row])))

    def of_operator(self, row: int) -> str:
        table = self._trace.operators
        line = self.at(int(table.thread[row]), int(table.start[row]))
        return line or self._text(self._forward_frame(row)) or self.path(row)

    def of_calls(self, rows: Integers) -> dict[str, list[int]]:
        """Rows of calls by location."""
        groups: dict[str, list[int]] = {}
        for row in rows.tolist():
            groups.setdefault(self.of_call(row), []).append(row)
        return groups

    def at(self, thread: int, moment: int) -> str:
        """The user's line that runs at a moment; empty without stacks."""
        if not self._trace.has_stacks:
            return ""
        return self._text(int(self._trace.frames.innermost(np.array([thread]), np.array([moment]))[0]))

    def after_call(self, row: int) -> str:
        calls = self._trace.calls
        return f"after {self.path(int(calls.operator[row])) or self._trace.name(calls, row)}"

    def path(self, row: int) -> str:
        """The operators around one, outermost first; of a long path the two ends."""
        names: list[str] = []
        while row >= 0:
            names.append(self._trace.name(self._trace.operators, row))
            row = int(self._trace.operators.parent[row])
        names.reverse()
        return " > ".join(names if len(names) <= 3 else [names[0], "...", names[-1]])

    def _forward_frame(self, operator: int) -> int:
        """The frame of the forward operator that belongs to a backward one, or -1."""
        return int(self._trace.forward_frame[operator]) if operator >= 0 and self._trace.has_stacks else -1

    def _text(self, frame: int) -> str:
        if frame < 0:
            return ""
        frames = self._trace.frames
        rows = (int(frames.line[frame]), int(frames.module[frame]))
        line, module = (self._trace.name(frames, row) if row >= 0 else "" for row in rows)
        module = module.removeprefix(_MODULE)
        return f"{line} ({module})" if line and module else line or module


class Neighbours:
    """The operators before and after one: those with the same parent on the same thread.

    An operator that is no longer called saves more than its own time: also the host's way from the operator before
    it. Of the two ways around an operator that goes, one goes with it.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._edges: dict[int, Integers] = {}

    def before(self, row: int) -> int:
        """The neighbour that ran before this operator, or -1."""
        return self._neighbour(row, range(row - 1, max(row - _FARTHEST_NEIGHBOUR, 0) - 1, -1))

    def after(self, row: int) -> int:
        """The neighbour that ran after this operator, or -1."""
        return self._neighbour(row, range(row + 1, min(row + _FARTHEST_NEIGHBOUR, len(self._trace.operators))))

    def spans(self, groups: Sequence[Sequence[int]]) -> list[Span]:
        """Host time that goes with each group of neighbours: from the first to the last, and one way."""
        return sorted(self._span(group) for group in groups if group)

    def _span(self, group: Sequence[int]) -> Span:
        table = self._trace.operators
        first, last = min(group), max(group)
        start, end = int(table.start[first]), int(table.end[last])
        edges = self._edges_of(int(table.thread[first]))
        previous_edge = int(edges[max(int(np.searchsorted(edges, start)) - 1, 0)])
        next_edge = int(edges[min(int(np.searchsorted(edges, end, side="right")), len(edges) - 1)])
        # A longer gap is not the way to an operator, but work of the program itself.
        way = min(max(start - previous_edge, 0), max(next_edge - end, 0), self._usual_way)
        return start - way, end

    def _neighbour(self, row: int, candidates: range) -> int:
        table = self._trace.operators
        parent, thread = table.parent[row], table.thread[row]
        for other in candidates:
            if table.parent[other] == parent and table.thread[other] == thread:
                return other
        return -1

    def _edges_of(self, thread: int) -> Integers:
        """All moments at which an operator, call, annotation or step of the thread starts or ends."""
        if thread not in self._edges:
            trace = self._trace
            moments = [trace.steps.start, trace.steps.end]
            for table in (trace.operators, trace.calls, trace.annotations):
                same = table.thread == thread
                moments += [table.start[same], table.end[same]]
            self._edges[thread] = np.unique(np.concatenate(moments))
        return self._edges[thread]

    @cached_property
    def _usual_way(self) -> int:
        """The median time from an outermost operator to the next one on its thread."""
        table = self._trace.operators
        ways = []
        for thread in np.unique(table.thread[table.depth == 0]).tolist():
            rows = np.flatnonzero((table.depth == 0) & (table.thread == thread))
            gaps = table.start[rows[1:]] - table.end[rows[:-1]]
            ways.append(gaps[gaps >= 0])
        joined = np.concatenate(ways) if ways else np.zeros(0)
        return int(np.median(joined)) if len(joined) else 0


def spans_of(table: Spans, rows: Any) -> list[Span]:
    """The time of these rows, merged, on the trace's clock."""
    return as_spans(make(table.start[rows], table.end[rows]))


def as_spans(intervals: Intervals) -> list[Span]:
    return [(int(start), int(end)) for start, end in intervals]


def merged(spans: Sequence[Span]) -> list[Span]:
    return as_spans(make([start for start, _ in spans], [end for _, end in spans])) if spans else []
