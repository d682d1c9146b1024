"""Which interval lies in which: the stack of each thread, rebuilt from starts and ends."""

import numpy as np

from tare.trace.intervals import Integers


def order(start: Integers, end: Integers) -> Integers:
    """By start; of two that start together the longer comes first, for it is around the other."""
    return np.lexsort((-end, start)).astype(np.int64)


def nest(thread: Integers, start: Integers, end: Integers) -> tuple[Integers, Integers]:
    """For rows in `order`: the row around each on its own thread or -1, and how many are around it.

    A row that outlives the one it started in (clocks are rounded) is still its child, and taken as ending with it.
    """
    count = len(start)
    parent = np.full(count, -1, dtype=np.int64)
    depth = np.zeros(count, dtype=np.int64)
    for one in np.unique(thread):
        rows = np.flatnonzero(thread == one)
        stack: list[int] = []
        ends: list[int] = []
        above: list[int] = []
        levels: list[int] = []
        for row, begin, finish in zip(rows.tolist(), start[rows].tolist(), end[rows].tolist(), strict=True):
            while ends and ends[-1] <= begin:
                ends.pop()
                stack.pop()
            above.append(stack[-1] if stack else -1)
            levels.append(len(stack))
            stack.append(row)
            ends.append(min(finish, ends[-1]) if ends else finish)
        parent[rows], depth[rows] = above, levels
    return parent, depth


def innermost(
    thread: Integers, start: Integers, end: Integers, parent: Integers, at_thread: Integers, at: Integers
) -> Integers:
    """For each moment on a thread the innermost row (of rows in `order`, with parents) that holds it, or -1."""
    found = np.full(len(at), -1, dtype=np.int64)
    for one in np.unique(at_thread):
        rows = np.flatnonzero(thread == one)
        asked = np.flatnonzero(at_thread == one)
        if len(rows) == 0:
            continue
        index = np.searchsorted(start[rows], at[asked], side="right") - 1
        row = np.where(index >= 0, rows[np.maximum(index, 0)], -1)
        while True:
            over = (row >= 0) & (end[np.maximum(row, 0)] <= at[asked])
            if not over.any():
                break
            row[over] = parent[row[over]]
        found[asked] = row
    return found
