"""The call stack of each thread, rebuilt from the starts and ends of its spans.

The spans of a thread contain each other or are disjoint, except for a few that outlive their parent because the
profiler rounds its clock. So parents are found with sorted arrays, and only the stretches with such a span are
walked row by row.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tare.trace.intervals import Integers, Mask

# Beyond this, the times of all threads on one axis do not fit an int64, and ranks replace the times.
LONGEST_AXIS = 2**62
BEGINNING = np.iinfo(np.int64).min
NO_OWNER = -1


def order(start: Integers, end: Integers) -> Integers:
    """The row order by start. Of two rows that start together the longer is the parent and comes first."""
    rows = np.argsort(start, kind="stable")
    begin, finish = start.take(rows), end.take(rows)
    if ((begin[1:] == begin[:-1]) & (finish[1:] > finish[:-1])).any():
        rows = np.lexsort((-end, start))
    return rows


def nest(thread: Integers, start: Integers, end: Integers) -> tuple[Integers, Integers]:
    """The parent row (or -1) and the depth of each row, for rows in `order`.

    A row that outlives the row it started in is still its child, and is treated as ending with its parent.
    """
    rows = _stable_order(thread)
    begin, finish = (times.take(rows) for times in _on_one_axis(thread, start, end))
    above, level = _nest_exact(begin, finish)
    outlives = (above >= 0) & (finish > finish[above])
    if outlives.any():
        _walk(begin, finish, above, level, outlives)
    parent, depth = np.empty_like(rows), np.empty_like(rows)
    parent[rows] = np.where(above >= 0, rows[above], -1)
    depth[rows] = level
    return parent, depth


def _on_one_axis(thread: Integers, *times: Integers) -> list[Integers]:
    """The times of all threads on one axis, one thread after the other."""
    if len(thread) == 0:
        return list(times)
    first = min(int(column.min()) for column in times)
    span = max(int(column.max()) for column in times) - first + 1
    if span * (int(thread.max()) + 1) < LONGEST_AXIS:
        return [column - first + thread * span for column in times]
    values, rank = np.unique(np.concatenate(times), return_inverse=True)
    return [column + thread * len(values) for column in np.split(rank, len(times))]


def _nest_exact(start: Integers, end: Integers) -> tuple[Integers, Integers]:
    """Parents and depths of rows in order on one axis; right where no row outlives its parent."""
    count = np.arange(len(start))
    empty = np.concatenate([[0], np.cumsum(start == end)])
    # The rows around a row started before it and have not ended. Of the rows that ended by then, only empty ones
    # that start at the same moment come later in the order.
    ended = np.searchsorted(np.sort(end), start, side="right")
    if empty[-1]:
        ended -= empty[np.searchsorted(start, start, side="right")] - empty[count]
    depth = count - ended
    parent = np.full(len(start), -1, dtype=np.int64)
    rows = _stable_order(depth)
    bounds = [0, *np.cumsum(np.bincount(depth)).tolist()]
    for (outer, first), last in zip(pairwise(bounds), bounds[2:], strict=False):
        parents, children = rows[outer:first], rows[first:last]
        parent[children] = parents[np.searchsorted(parents, children) - 1]
    return parent, depth


def _walk(start: Integers, end: Integers, parent: Integers, depth: Integers, outlives: Mask) -> None:
    """Corrects every stretch (between two moments that no row spans) in which a row outlives its parent."""
    reach = np.maximum.accumulate(end)
    first = np.concatenate([[True], start[1:] >= reach[:-1]])
    bounds = np.append(np.flatnonzero(first), len(start))
    for stretch in np.unique(np.cumsum(first)[outlives] - 1).tolist():
        rows = slice(bounds[stretch], bounds[stretch + 1])
        stack: list[tuple[int, int]] = []
        parents: list[int] = []
        depths: list[int] = []
        times = zip(range(rows.start, rows.stop), start[rows].tolist(), end[rows].tolist(), strict=True)
        for row, begin, finish in times:
            while stack and stack[-1][1] <= begin:
                stack.pop()
            parents.append(stack[-1][0] if stack else -1)
            depths.append(len(stack))
            stack.append((row, min(finish, stack[-1][1]) if stack else finish))
        parent[rows], depth[rows] = parents, depths


def _stable_order(values: Integers) -> Integers:
    """A stable argsort. Numpy has a radix sort for 16 bits only."""
    small = len(values) and values.min() >= 0 and values.max() < 1 << 16
    return np.argsort(values.astype(np.uint16) if small else values, kind="stable")


def inherit(own: Integers, parent: Integers) -> Integers:
    """Each row's own value or, where that is negative, the value of the nearest ancestor that has one."""
    link = np.where((own < 0) & (parent >= 0), parent, np.arange(len(own)))
    # Every turn doubles the distance to the ancestor.
    while not np.array_equal(further := link.take(link), link):
        link = further
    return own.take(link)


def clip_to_parents(end: Integers, parent: Integers) -> Integers:
    """The ends, none later than the end of an ancestor."""
    link = np.where(parent >= 0, parent, np.arange(len(end)))
    while True:
        end = np.minimum(end, end.take(link))
        further = link.take(link)
        if np.array_equal(further, link):
            return end
        link = further


def self_times(start: Integers, end: Integers, parent: Integers) -> Integers:
    """The duration of each row without its children.

    Of a child that outlives its parent only the part inside is subtracted, so no self time is negative.
    """
    times: Integers = end - start
    children = np.flatnonzero(parent >= 0)
    above = parent[children]
    np.subtract.at(times, above, np.minimum(end[children], end[above]) - start[children])
    return times


def innermost(
    thread: Integers, start: Integers, end: Integers, parent: Integers, at_thread: Integers, at: Integers
) -> Integers:
    """For each moment on a thread, the innermost row (rows are in `order`) that contains it, or -1."""
    if len(start) == 0 or len(at) == 0:
        return np.full(len(at), -1, dtype=np.int64)
    rows = _stable_order(thread)
    threads = np.concatenate([thread[rows], at_thread])
    axis = _on_one_axis(threads, np.concatenate([start[rows], at]))[0]
    index = np.searchsorted(axis[: len(rows)], axis[len(rows) :], side="right") - 1
    owner = np.where(index >= 0, rows[np.maximum(index, 0)], -1)
    owner[thread[owner] != at_thread] = -1
    pending = np.flatnonzero(owner >= 0)
    while len(pending := pending[end[owner[pending]] <= at[pending]]):
        owner[pending] = parent[owner[pending]]
        pending = pending[owner[pending] >= 0]
    return owner


@dataclass(frozen=True)
class Timeline:
    """What one thread did at each moment: consecutive segments without holes.

    Segment i lasts from start[i] to start[i + 1], the last one for ever. `owner` is the innermost row, or
    NO_OWNER.
    """

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

    def merge(self, kinds: Integers) -> "Timeline":
        """Neighbours of one kind as one segment, which the first of them owns."""
        first = np.ones(len(kinds), dtype=bool)
        first[1:] = kinds[1:] != kinds[:-1]
        rows = np.flatnonzero(first)
        return Timeline(self.start.take(rows), self.owner.take(rows))


def flatten(rows: Integers, start: Integers, end: Integers, parent: Integers) -> Timeline:
    """The timeline of these rows of one thread, which are in `order`, nested, and have clipped ends."""
    rows = rows[end[rows] > start[rows]]
    # At its start a row becomes the owner, at its end its parent does. At one moment, ends come before starts,
    # inner ends before outer ends, and outer starts before inner starts: the last one is right.
    inwards = rows[::-1]
    times = np.concatenate([end[inwards], start[rows]])
    owners = np.concatenate([parent[inwards], rows])
    by_time = np.argsort(times, kind="stable")
    return Timeline(np.append(BEGINNING, times.take(by_time)), np.append(NO_OWNER, owners.take(by_time)))
