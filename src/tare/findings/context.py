"""A trace as the rules see it: the steps that are examined, queries over its tables, locations and savings."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tare.findings.replay import WhatIf, as_intervals
from tare.findings.sequences import Sequences
from tare.findings.trace_replay import TraceReplay
from tare.trace.collectives import Collectives, collectives
from tare.trace.counting import product
from tare.trace.intervals import Intervals, contains, distinct, make, total, union
from tare.trace.metadata import metadata_time
from tare.trace.names import MODULE_PREFIX, begins_capture, ends_capture
from tare.trace.spans import pick, rows_by_value
from tare.trace.tables import DIRECTIONS, SYNC, Integers, Mask, Spans, Trace
from tare.trace.windows import counted_step

# A product that takes this long at the peak rate comes near it: on an H200 one of 4096 (0.2 ms in bfloat16) is
# within a tenth of the rate of one of 8192, with which the peak is measured. What smaller ones reach is unknown.
LONG_PRODUCT_S = 100e-6
# Autograd's nodes and the dispatcher's wrappers repeat the operators within them.
WRAPPERS = ("autograd::", "ProfilerStep", "Torch-Compiled", "TorchDynamo", "AOTDispatcher", "Pregraph")


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
        self.replay = TraceReplay(trace)
        self.steps = self.replay.steps
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
        calls, activities = self.replay.call_rows, self.replay.activity_index
        indexed = msgspec.structs.replace(
            what_if,
            unwaited=frozenset(row - calls.start for row in what_if.unwaited if row in calls),
            factors={activities[row]: factor for row, factor in what_if.factors.items() if row in activities},
            detached=frozenset(activities[row] for row in what_if.detached if row in activities),
        )
        return self.replay.saving(indexed) / self.steps / 1e9

    def without(self, calls: Integers, host: npt.ArrayLike = ()) -> WhatIf:
        """The change in which these calls, what they launched, and these stretches of host time are gone."""
        return WhatIf(
            removed=union(as_intervals(host), self.trace.calls.intervals(calls)),
            unwaited=frozenset(calls.tolist()),
            factors=dict.fromkeys(self.activities_of(calls).tolist(), 0.0),
        )

    def reaches_peak(self, flops: Iterable[int | None], rate: float | None) -> bool:
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
        return np.isin(self.trace.device.call, self.replay.call_rows)

    @cached_property
    def waits(self) -> Integers:
        """Calls within the steps that may hold the host until the device is done."""
        rows = zip(self.replay.call_rows, self.replay.calls, strict=True)
        return np.array([row for row, call in rows if call.waits], dtype=np.int64)

    @property
    def syncs(self) -> Integers:
        """Those of them that do nothing but wait."""
        syncs: Integers = self.waits[self.trace.calls.kind[self.waits] == SYNC]
        return syncs

    def operators(self, *names: str) -> Integers:
        """Operators of these names within the steps."""
        return self._within(self.trace.operators, self.trace.named(self.trace.operators, *names))

    def matching(self, table: Spans, pattern: str) -> Integers:
        """Rows within the steps whose name matches the regular expression."""
        return self._within(table, self.trace.matching(table, re.compile(pattern).search))

    def _within(self, table: Spans, chosen: Mask) -> Integers:
        """The chosen rows that start within the steps. Most rules choose few."""
        rows = np.flatnonzero(chosen)
        start = table.start[rows]
        return rows[(start >= self.replay.start) & (start < self.replay.end)]

    def marks(self, pattern: str) -> tuple[Any, Integers]:
        """Annotations whose name matches, or else operators: versions of the profiler file a mark under either.
        The table and its rows."""
        rows = self.matching(self.trace.annotations, pattern)
        if len(rows):
            return self.trace.annotations, rows
        return self.trace.operators, self.matching(self.trace.operators, pattern)

    def marked(self, pattern: str) -> Intervals:
        """Host time under annotations or operators whose name matches."""
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

    @cached_property
    def root(self) -> Integers:
        """For each operator the outermost one around it that is not autograd's engine."""
        return self._outermost_within(lambda name: "::engine::" in name)

    @cached_property
    def called(self) -> Integers:
        """For each operator the one around it that a user calls; -1 for one of WRAPPERS."""
        wrappers = self.trace.matching(self.trace.operators, _wraps)
        return np.where(wrappers, -1, self._outermost_within(_wraps))

    def _outermost_within(self, is_wrapper: Callable[[str], bool]) -> Integers:
        """For each operator the outermost one around it within the nearest wrapper, if there is one."""
        table = self.trace.operators
        outermost = (table.parent < 0) | self.trace.matching(table, is_wrapper)[table.parent]
        return table.inherit(np.where(outermost, np.arange(len(table)), -1))

    def roots(self, rows: Integers) -> Integers:
        """The outermost operators around these that are not autograd's engine."""
        return distinct(self.root[rows[rows >= 0]])

    def calls_under(self, rows: Integers) -> Integers:
        """Runtime calls made within these operators."""
        return np.flatnonzero(pick(self.owners(rows), self.trace.calls.operator) >= 0)

    @cached_property
    def calling(self) -> Mask:
        """The operators within which a runtime call was made."""
        parent, calling = self.trace.operators.parent, np.zeros(len(self.trace.operators), dtype=bool)
        rows = distinct(self.trace.calls.operator)
        while len(rows := rows[rows >= 0]):
            calling[rows] = True
            rows = distinct(parent[rows])
            rows = rows[(rows < 0) | ~calling[rows]]
        return calling

    def calls_during(self, intervals: Intervals) -> Integers:
        """Runtime calls within the steps that start in these intervals."""
        calls = self.trace.calls
        return np.flatnonzero(contains(intervals, calls.start) & self.inside(calls))

    def activities_of(self, calls: Integers) -> Integers:
        """Device activities launched by these calls."""
        return np.flatnonzero(np.isin(self.trace.device.call, calls))

    def activities_by(self, rows: Integers) -> dict[int, list[int]]:
        """Device activities, launched within the steps, by the operator, of these, under which they were
        launched."""
        launched = np.flatnonzero(self.launched)
        owner = pick(self.owners(rows), self.trace.calls.operator[self.trace.device.call[launched]])
        groups: dict[int, list[int]] = {row: [] for row in rows.tolist()}
        for activity, row in zip(launched.tolist(), owner.tolist(), strict=True):
            if row >= 0:
                groups[row].append(activity)
        return groups

    def in_every_step(self, table: Spans, rows: Any) -> bool:
        """Whether each examined step has one of these rows: what happened once is an accident."""
        steps = counted_step(self.trace, table.start[rows])
        return len(np.unique(steps[steps >= 0])) >= self.steps

    @cached_property
    def collectives(self) -> Collectives:
        """Those that were launched within the steps."""
        return collectives(self.trace, self.launched)

    @cached_property
    def capturing(self) -> Intervals:
        """Host time in which a stream is captured into a graph."""
        trace, calls = self.trace, self.trace.calls
        begins = np.flatnonzero(trace.matching(calls, begins_capture))
        ends = calls.end[trace.matching(calls, ends_capture)]
        after = np.searchsorted(ends, calls.start[begins], side="right")
        return make(calls.start[begins], np.append(ends, self.replay.end)[after])

    @property
    def unmarked(self) -> bool:
        """Whether the trace marks no steps: they were found, or the whole trace is taken as one."""
        return len(self.trace.steps) > 0 and not self.trace.steps.marked

    @property
    def one_stretch(self) -> bool:
        """Whether the whole trace is taken as one step, which shows no habit."""
        return self.unmarked and len(self.trace.steps) == 1

    @cached_property
    def program(self) -> Integers:
        """The operators within the steps that the program itself calls, or autograd for it."""
        rows = np.arange(len(self.trace.operators))
        return np.flatnonzero((self.called == rows) & self.inside(self.trace.operators))

    @cached_property
    def sequences(self) -> Sequences:
        return Sequences(self.trace, self.program, self.neighbours.after)

    def backward(self, groups: Iterable[Iterable[int]]) -> list[Integers]:
        """For each group of operators the outermost ones of the backward pass that belong to it."""
        table, count = self.trace.operators, 0
        group = np.full(len(table), -1, dtype=np.int64)
        for count, rows in enumerate(groups, 1):
            group[list(rows)] = count - 1
        group = pick(table.inherit(group), self.trace.forward_operator)
        outermost = (group >= 0) & (pick(group, table.parent) != group) & self.inside(table)
        by_group = rows_by_value(group[outermost])
        rows = np.flatnonzero(outermost)
        return [rows[by_group[number]] if number in by_group else rows[:0] for number in range(count)]

    def work(self, rows: Integers) -> Intervals:
        """When the device ran what these operators launched. Without a device: when they ran themselves."""
        if not self.trace.has_device:
            return self.trace.operators.intervals(rows)
        return self.trace.device.intervals(self.activities_of(self.calls_under(rows)))

    # Figures per step

    def per_step(self, count: int) -> float:
        return count / self.steps

    def times(self, count: int) -> str:
        """How often in words: 'once a step', '15 times a step'."""
        shown = f"{self.per_step(count):.3g}"
        return "once a step" if shown == "1" else f"{shown} times a step"

    def seconds(self, table: Spans, rows: Any) -> float:
        """Seconds of a step in which any of these rows ran."""
        return total(table.intervals(rows)) / self.steps / 1e9

    def device_share(self, activities: Integers) -> float:
        """The share of the step in which any of these ran."""
        return self.seconds(self.trace.device, activities) / self.step_s

    def share(self, intervals: Intervals) -> float:
        """The share of the step that these cover."""
        return total(intervals) / self.steps / 1e9 / self.step_s

    # Locations

    def location(self, where: str, spans: npt.ArrayLike, count: int = 1) -> Location:
        """`spans` and `count` are those of all steps."""
        seconds = total(as_intervals(spans)) / self.steps / 1e9
        return Location(where=where, count=self.per_step(count), seconds=seconds)

    def locations(self, table: Spans, rows: Integers, where: Callable[[int], str] | None = None) -> list[Location]:
        """The rows of a table by location, which `where` may tell better than the locator."""
        groups = grouped(rows.tolist(), where or (lambda row: self.locator.of_row(table, row)))
        return [self.location(text, table.intervals(group), len(group)) for text, group in groups.items()]

    def product_location(self, row: int, kernel: int) -> str:
        """The shape of a matrix product, and where it is computed."""
        where, shape = self.locator.of_activity(kernel), product(self.trace, row)
        if shape is None:
            return where
        return f"{'x'.join(map(str, (shape.batch, shape.m, shape.k, shape.n)))} at {where}"


class Locator:
    """Names locations. A line is the one that ran where the trace has marks of lines (tare.trace.lines), and else
    the one that defines its function: the profiler records no other."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def of_row(self, table: Any, row: int) -> str:
        """Where a row of any table with threads, or of the device's, comes from."""
        if table is self._trace.device:
            return self.of_activity(row)
        if table is self._trace.calls:
            return self.of_call(row)
        return self.at(table.thread[row], table.start[row]) or self._trace.name(table, row)

    def of_call(self, row: int) -> str:
        calls = self._trace.calls
        return self.line_of_call(row) or self.path(int(calls.operator[row])) or self._trace.name(calls, row)

    def of_activity(self, row: int) -> str:
        """Where an activity was launched; of a copy also its direction."""
        where, direction = self.of_call(int(self._trace.device.call[row])), self._trace.device.direction[row]
        return f"{where}: {DIRECTIONS[direction]}" if direction >= 0 else where

    def line_of_call(self, row: int) -> str:
        """The user's line and module; empty without stacks. Of a backward operator those of its forward."""
        return self.of_frame(int(self.frames_of_calls(np.array([row]))[0]))

    def frames_of_calls(self, rows: Integers) -> Integers:
        """The frames around these calls; in the backward pass those of the forward operators."""
        frame, operator = self._trace.calls.frame[rows], self._trace.calls.operator[rows]
        if not self._trace.has_stacks:
            return frame
        return np.where(frame < 0, pick(self._trace.forward_frame, operator), frame)

    def at(self, thread: int, moment: int) -> str:
        """The user's line that runs at a moment; empty without stacks."""
        if not self._trace.has_stacks:
            return ""
        return self.of_frame(int(self._trace.frames.innermost(np.array([thread]), np.array([moment]))[0]))

    def after_call(self, row: int) -> str:
        calls = self._trace.calls
        return f"after {self.path(int(calls.operator[row])) or self._trace.name(calls, row)}"

    def path(self, row: int) -> str:
        """The operators around one, outermost first; of a long path the two ends."""
        names: list[str] = []
        while row >= 0:
            names.insert(0, self._trace.name(self._trace.operators, row))
            row = int(self._trace.operators.parent[row])
        return " > ".join(names if len(names) <= 3 else [names[0], "...", names[-1]])

    def of_frame(self, frame: int) -> str:
        """The user's line and module around a frame; empty for -1."""
        if frame < 0:
            return ""
        frames = self._trace.frames
        rows = (int(frames.line[frame]), int(frames.module[frame]))
        line, module = (self._trace.name(frames, row) if row >= 0 else "" for row in rows)
        module = module.removeprefix(MODULE_PREFIX)
        return f"{line} ({module})" if line and module else line or module


class Neighbours:
    """The operators before and after one, or -1: those with the same parent on the same thread.

    An operator that is no longer called saves more than its own time: also the host's way from the operator before
    it. Of the two ways around an operator that goes, one goes with it.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace, table = trace, trace.operators
        order = np.lexsort((table.parent, table.thread))
        first, second = order[:-1], order[1:]
        same = (table.parent[first] == table.parent[second]) & (table.thread[first] == table.thread[second])
        self.before, self.after = np.full((2, len(table)), -1)
        self.before[second[same]], self.after[first[same]] = first[same], second[same]
        self._edges: dict[int, Integers] = {}

    def spans(self, groups: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
        """Host time that goes with each group of neighbours: from the first to the last, and one way."""
        return sorted(self._span(min(group), max(group)) for group in groups if group)

    def _span(self, first: int, last: int) -> tuple[int, int]:
        table = self._trace.operators
        start, end = int(table.start[first]), int(table.end[last])
        edges = self._edges_of(int(table.thread[first]))
        previous_edge = int(edges[max(int(np.searchsorted(edges, start)) - 1, 0)])
        next_edge = int(edges[min(int(np.searchsorted(edges, end, side="right")), len(edges) - 1)])
        # A longer gap is not the way to an operator, but work of the program itself.
        way = min(max(start - previous_edge, 0), max(next_edge - end, 0), self._usual_way)
        return start - way, end

    def _edges_of(self, thread: int) -> Integers:
        """All moments at which an operator, call, annotation or step of the thread starts or ends."""
        if thread not in self._edges:
            trace = self._trace
            moments = [trace.steps.start, trace.steps.end]
            for table in (trace.operators, trace.calls, trace.annotations):
                same = table.thread == thread
                moments += [table.start[same], table.end[same]]
            self._edges[thread] = distinct(np.concatenate(moments))
        return self._edges[thread]

    @cached_property
    def _usual_way(self) -> int:
        """The median time from an outermost operator to the next one on its thread."""
        table = self._trace.operators
        rows = np.flatnonzero((table.depth == 0) & (self.after >= 0))
        ways = table.start[self.after[rows]] - table.end[rows]
        return int(np.median(ways[ways >= 0])) if (ways >= 0).any() else 0


def _wraps(name: str) -> bool:
    return name.startswith(WRAPPERS)


def grouped(rows: Iterable[int], where: Callable[[int], str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for row in rows:
        groups.setdefault(where(row), []).append(row)
    return groups


def flat(groups: Iterable[Iterable[int]]) -> Integers:
    """The rows of all groups, each once, sorted."""
    return distinct(np.fromiter(chain.from_iterable(groups), np.int64))
