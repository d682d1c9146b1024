"""Which interval lies in which: the stack of each thread, rebuilt from starts and ends.

A thread's intervals hold each other or lie apart, but for a few that the clock's rounding makes outlive the one
around them. So all is counted with sorted arrays, and only the stretches with such an interval are walked.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tare.trace.intervals import Integers

# Beyond this the threads' times, put one after the other, do not fit an int64: their ranks then stand for them.
LONGEST_LINE = 2**62


def order(start: Integers, end: Integers) -> Integers:
    """By start; of two that start together the longer comes first, for it is around the other."""
    rows = np.argsort(start, kind="stable")
    begin, finish = start.take(rows), end.take(rows)
    if ((begin[1:] == begin[:-1]) & (finish[1:] > finish[:-1])).any():
        rows = np.lexsort((-end, start))
    return rows


def nest(thread: Integers, start: Integers, end: Integers) -> tuple[Integers, Integers]:
    """For rows in `order`: the row around each on its own thread or -1, and how many are around it.

    A row that outlives the one it started in (clocks are rounded) is still its child, and taken as ending with it.
    """
    rows = _ranked(thread)
    begin, finish = (times.take(rows) for times in _on_one_line(thread, start, end))
    above, level = _count(begin, finish)
    outlives = (above >= 0) & (finish > finish[above])
    if outlives.any():
        _walk(begin, finish, above, level, outlives)
    parent, depth = np.empty_like(rows), np.empty_like(rows)
    parent[rows] = np.where(above >= 0, rows[above], -1)
    depth[rows] = level
    return parent, depth


def _on_one_line(thread: Integers, *times: Integers) -> list[Integers]:
    """The times of all threads on one line, a thread behind the other."""
    if len(thread) == 0:
        return list(times)
    first = min(int(column.min()) for column in times)
    span = max(int(column.max()) for column in times) - first + 1
    if span * (int(thread.max()) + 1) < LONGEST_LINE:
        return [column - first + thread * span for column in times]
    distinct, rank = np.unique(np.concatenate(times), return_inverse=True)
    return [column + thread * len(distinct) for column in np.split(rank, len(times))]


def _count(start: Integers, end: Integers) -> tuple[Integers, Integers]:
    """Parents and depths of rows in order on one line: right where none of a stretch outlives another."""
    count = np.arange(len(start))
    empty = np.concatenate([[0], np.cumsum(start == end)])
    # Around a row is what began before it and has not ended. Of those that ended by then only empty ones that
    # begin at the same moment come later.
    ended = np.searchsorted(np.sort(end), start, side="right")
    if empty[-1]:
        ended -= empty[np.searchsorted(start, start, side="right")] - empty[count]
    depth = count - ended
    parent = np.full(len(start), -1, dtype=np.int64)
    outer: Integers | None = None
    for rows in levels(depth):
        if outer is not None:
            parent[rows] = outer[np.searchsorted(outer, rows) - 1]
        outer = rows
    return parent, depth


def _walk(
    start: Integers, end: Integers, parent: Integers, depth: Integers, outlives: npt.NDArray[np.bool_]
) -> None:
    """Corrects the stretches, from one moment that nothing reaches over to the next, in which a row outlives."""
    reach = np.maximum.accumulate(end)
    first = np.concatenate([[True], start[1:] >= reach[:-1]])
    bounds = np.append(np.flatnonzero(first), len(start))
    for stretch in np.unique(np.cumsum(first)[outlives] - 1).tolist():
        rows = slice(bounds[stretch], bounds[stretch + 1])
        stack: list[tuple[int, int]] = []
        above: list[int] = []
        levels: list[int] = []
        for row, begin, finish in zip(
            range(rows.start, rows.stop), start[rows].tolist(), end[rows].tolist(), strict=True
        ):
            while stack and stack[-1][1] <= begin:
                stack.pop()
            above.append(stack[-1][0] if stack else -1)
            levels.append(len(stack))
            stack.append((row, min(finish, stack[-1][1]) if stack else finish))
        parent[rows], depth[rows] = above, levels


def _ranked(values: Integers) -> Integers:
    """A stable order of small numbers. Numpy has a sort that never compares for 16 bits only."""
    small = len(values) and values.min() >= 0 and values.max() < 1 << 16
    return np.argsort(values.astype(np.uint16) if small else values, kind="stable")


def levels(depth: Integers) -> list[Integers]:
    """The rows of each depth, from the outermost inwards."""
    rows = _ranked(depth)
    ends = np.cumsum(np.bincount(depth)).tolist()
    return [rows[first:last] for first, last in pairwise([0, *ends])]


def inherit(own: Integers, parent: Integers) -> Integers:
    """For each row its own value, or where that is negative that of the nearest row around it that has one."""
    heir = np.where((own < 0) & (parent >= 0), parent, np.arange(len(own)))
    return own.take(_follow(heir))


def enclosed(end: Integers, parent: Integers) -> Integers:
    """The ends, none later than that of a row around it."""
    above = np.where(parent >= 0, parent, np.arange(len(end)))
    while True:
        end = np.minimum(end, end.take(above))
        further = above.take(above)
        if np.array_equal(further, above):
            return end
        above = further


def own_time(start: Integers, end: Integers, parent: Integers) -> Integers:
    """How long each row lasts without those within it. Of one that outlives the row around it only the part within
    goes off that one's time: none is negative."""
    own: Integers = end - start
    inner = np.flatnonzero(parent >= 0)
    above = parent[inner]
    np.subtract.at(own, above, np.minimum(end[inner], end[above]) - start[inner])
    return own


def _follow(link: Integers) -> Integers:
    """Where a chain of links ends, for each row: every turn doubles the distance."""
    while True:
        further = link.take(link)
        if np.array_equal(further, link):
            return link
        link = further


def innermost(
    thread: Integers, start: Integers, end: Integers, parent: Integers, at_thread: Integers, at: Integers
) -> Integers:
    """For each moment on a thread the innermost row (of rows in `order`, with parents) that holds it, or -1."""
    if len(start) == 0 or len(at) == 0:
        return np.full(len(at), -1, dtype=np.int64)
    rows = _ranked(thread)
    threads = np.concatenate([thread[rows], at_thread])
    line = _on_one_line(threads, np.concatenate([start[rows], at]))[0]
    index = np.searchsorted(line[: len(rows)], line[len(rows) :], side="right") - 1
    found = np.where(index >= 0, rows[np.maximum(index, 0)], -1)
    found[thread[found] != at_thread] = -1
    left = np.flatnonzero(found >= 0)
    while len(left := left[end[found[left]] <= at[left]]):
        found[left] = parent[found[left]]
        left = left[found[left] >= 0]
    return found
