"""Spans of time, and the call stack of each thread, rebuilt from the starts and ends of its spans.

The spans of a thread contain each other or are disjoint, except for a few that outlive their parent because the
profiler rounds its clock. So parents are found with sorted arrays, and only the stretches with such a span are
walked row by row.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np

from tare.trace.intervals import Integers, Intervals, Mask, distinct, make

BEGINNING = np.iinfo(np.int64).min
NO_OWNER = -1


@dataclass(frozen=True)
class Spans:
    """The columns of every table. Rows are in `order`."""

    start: Integers
    end: Integers
    name: Integers

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def names_used(self) -> Integers:
        """The names of the rows, each once."""
        if self.name.min(initial=0) < 0:
            return distinct(self.name)
        return np.flatnonzero(np.bincount(self.name))

    @property
    def duration(self) -> Integers:
        return self.end - self.start

    def intervals(self, where: Any = slice(None)) -> Intervals:
        """The union of the rows selected by a mask or by indices."""
        return make(self.start[where], self.end[where])

    def take(self, rows: Any) -> Self:
        """The table with these rows only. Columns that hold row numbers keep their values."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True)
class NestedSpans(Spans):
    """Spans in one stack per thread. `parent` is the row of the enclosing span on the same thread, or -1.

    A span that outlives the span it started in is still its child, and is treated as ending with its parent.
    """

    thread: Integers
    parent: Integers
    depth: Integers

    @cached_property
    def rows_by_thread(self) -> dict[int, Integers]:
        return rows_by_value(self.thread)

    @cached_property
    def top(self) -> Integers:
        """The outermost row around each row, or the row itself."""
        return self.inherit(np.where(self.parent < 0, np.arange(len(self)), -1))

    @cached_property
    def clipped_end(self) -> Integers:
        """The ends, none later than the end of an ancestor."""
        end, link = self.end, np.where(self.parent >= 0, self.parent, np.arange(len(self)))
        while True:
            end = np.minimum(end, end.take(link))
            further = link.take(link)
            if np.array_equal(further, link):
                return end
            link = further

    @cached_property
    def self_time(self) -> Integers:
        """The duration of each row without its children.

        Of a child that outlives its parent only the part inside is subtracted, so no self time is negative.
        """
        children = np.flatnonzero(self.parent >= 0)
        above = self.parent[children]
        inside = np.minimum(self.end[children], self.end[above]) - self.start[children]
        return self.duration - sum_by(above, inside, len(self))

    def inherit(self, own: Integers) -> Integers:
        """Each row's own value or, where that is negative, the value of the nearest ancestor that has one."""
        link = np.where((own < 0) & (self.parent >= 0), self.parent, np.arange(len(own)))
        # Every turn doubles the distance to the ancestor.
        while not np.array_equal(further := link.take(link), link):
            link = further
        return own.take(link)

    def innermost(self, thread: Integers, at: Integers) -> Integers:
        """For each moment on a thread, the innermost row that contains it, or -1."""
        owner = np.full(len(at), -1, dtype=np.int64)
        if not len(self):
            return owner
        for number, rows in self.rows_by_thread.items():
            asked = np.flatnonzero(thread == number)
            begun = np.searchsorted(self.start[rows], at[asked], side="right")
            owner[asked] = np.append(-1, rows)[begun]
        pending = np.flatnonzero(owner >= 0)
        while len(pending := pending[self.end[owner[pending]] <= at[pending]]):
            owner[pending] = self.parent[owner[pending]]
            pending = pending[owner[pending] >= 0]
        return owner

    @cached_property
    def _timelines(self) -> dict[int, "Timeline"]:
        return {}

    def timeline(self, thread: int) -> "Timeline":
        """The innermost row of a thread at each moment."""
        if thread not in self._timelines:
            self._timelines[thread] = self._timeline(thread)
        return self._timelines[thread]

    def _timeline(self, thread: int) -> "Timeline":
        start, end = self.start, self.clipped_end
        rows = self.rows_by_thread.get(thread, np.empty(0, dtype=np.int64))
        rows = rows[end[rows] > start[rows]]
        # At its start a row becomes the owner, at its end its parent does. At one moment, ends come before starts,
        # inner ends before outer ends, and outer starts before inner starts: the last one is right.
        inwards = rows[::-1]
        times = np.concatenate([end[inwards], start[rows]])
        owners = np.concatenate([self.parent[inwards], rows])
        by_time = np.argsort(times, kind="stable")
        return Timeline(np.append(BEGINNING, times.take(by_time)), np.append(NO_OWNER, owners.take(by_time)))


@dataclass(frozen=True)
class Timeline:
    """Consecutive segments without holes. Segment i lasts from start[i] to start[i + 1], the last one for ever."""

    start: Integers
    owner: Integers

    def cut(self, begin: Integers, end: Integers) -> tuple[Integers, Integers, Integers, Integers]:
        """Spans [begin, end) cut at the segments, as (span, begin, end, owner). Lengths add up."""
        first = np.searchsorted(self.start, begin, side="right") - 1
        last = np.searchsorted(self.start, end, side="left")
        counts = np.where(end > begin, last - first, 0)
        span = np.repeat(np.arange(len(begin)), counts)
        offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        segment = first[span] + offset
        following = np.append(self.start[1:], np.iinfo(np.int64).max)
        cut_begin = np.maximum(begin.take(span), self.start.take(segment))
        cut_end = np.minimum(end.take(span), following.take(segment))
        kept = np.flatnonzero(cut_end > cut_begin)
        return span.take(kept), cut_begin.take(kept), cut_end.take(kept), self.owner.take(segment.take(kept))


def merge(*tables: Any) -> tuple[dict[str, Integers], Integers]:
    """The columns of NestedSpans for the rows of several tables with threads, and where each row comes from: its
    position in the tables, one after the other."""
    columns = {
        name: np.concatenate([getattr(table, name) for table in tables])
        for name in ("start", "end", "name", "thread")
    }
    rows = order(columns["start"], columns["end"])
    return nested({name: column.take(rows) for name, column in columns.items()}), rows


def nested(columns: dict[str, Integers]) -> dict[str, Integers]:
    """Adds `parent` and `depth` to the columns of spans in `order`."""
    start, end = columns["start"], columns["end"]
    parent, depth = np.empty_like(start), np.empty_like(start)
    for rows in rows_by_value(columns["thread"]).values():
        above, depth[rows] = _nest(start[rows], end[rows])
        parent[rows] = pick(rows, above)
    return columns | {"parent": parent, "depth": depth}


def order(start: Integers, end: Integers) -> Integers:
    """The row order by start. Of two rows that start together the longer is the parent and comes first."""
    rows = np.argsort(start, kind="stable")
    begin, finish = start.take(rows), end.take(rows)
    if ((begin[1:] == begin[:-1]) & (finish[1:] > finish[:-1])).any():
        rows = np.lexsort((-end, start))
    return rows


def _nest(start: Integers, end: Integers) -> tuple[Integers, Integers]:
    """The parents and depths of the rows of one thread."""
    count = np.arange(len(start))
    empty = np.concatenate([[0], np.cumsum(start == end)])
    # The rows around a row started before it and have not ended. Of the rows that ended by then, only empty ones
    # that start at the same moment come later in the order.
    ended = np.searchsorted(np.sort(end), start, side="right")
    if empty[-1]:
        ended -= empty[np.searchsorted(start, start, side="right")] - empty[count]
    depth = count - ended
    # The parent is the last row before this one that is one level higher.
    keys = np.sort(depth * len(start) + count)
    level_above = (depth - 1) * len(start)
    parent = np.where(depth > 0, keys[np.searchsorted(keys, level_above + count) - 1] - level_above, -1)
    outlives = (parent >= 0) & (end > end[parent])
    if outlives.any():
        _walk(start, end, parent, depth, outlives)
    return parent, depth


def _walk(start: Integers, end: Integers, parent: Integers, depth: Integers, outlives: Mask) -> None:
    """Corrects every stretch (between two moments that no row spans) in which a row outlives its parent."""
    reach = np.maximum.accumulate(end)
    first = np.concatenate([[True], start[1:] >= reach[:-1]])
    bounds = np.append(np.flatnonzero(first), len(start))
    starts, ends = start.tolist(), end.tolist()
    for stretch in np.unique(np.cumsum(first)[outlives] - 1).tolist():
        stack: list[tuple[int, int]] = []
        for row in range(bounds[stretch], bounds[stretch + 1]):
            while stack and stack[-1][1] <= starts[row]:
                stack.pop()
            above, limit = stack[-1] if stack else (-1, ends[row])
            parent[row], depth[row] = above, len(stack)
            stack.append((row, min(ends[row], limit)))


def rows_by_value(values: Integers) -> dict[int, Integers]:
    """The rows that have each value."""
    # numpy sorts numbers of 16 bits by their digits, several times as fast.
    short = len(values) and values.min() >= -(2**15) and values.max() < 2**15
    rows = np.argsort(values.astype(np.int16) if short else values, kind="stable")
    distinct, first = np.unique(values[rows], return_index=True)
    return dict(zip(distinct.tolist(), np.split(rows, first)[1:], strict=True))


def pick(column: Integers, rows: Integers) -> Integers:
    """The value of each row, and -1 for the row -1."""
    return np.append(column, -1)[rows]


def sum_by(group: Integers, values: Integers, count: int) -> Integers:
    """The sum of the values of each of `count` groups, exactly: np.bincount would add floats."""
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, group, values)
    return sums
