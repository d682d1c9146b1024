"""What a host thread did at each moment: the innermost of its events, as a line of segments without holes."""

from dataclasses import dataclass

import numpy as np

from tare.trace.intervals import Integers
from tare.trace.nesting import order

BEGINNING = np.iinfo(np.int64).min
NOBODY = -1


@dataclass(frozen=True)
class Timeline:
    """Segment i runs from start[i] to start[i + 1], the last for ever; owner is the innermost row, or NOBODY."""

    start: Integers
    owner: Integers

    def cut(self, begin: Integers, end: Integers) -> tuple[Integers, Integers, Integers, Integers]:
        """Pieces [begin, end) cut at the segments: (piece, begin, end, owner). Lengths add up."""
        first = np.searchsorted(self.start, begin, side="right") - 1
        last = np.searchsorted(self.start, end, side="left")
        counts = np.where(end > begin, last - first, 0)
        piece = np.repeat(np.arange(len(begin)), counts)
        offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        segment = first[piece] + offset
        following = np.append(self.start[1:], np.iinfo(np.int64).max)
        from_ = np.maximum(begin[piece], self.start[segment])
        to = np.minimum(end[piece], following[segment])
        kept = to > from_
        return piece[kept], from_[kept], to[kept], self.owner[segment][kept]


def flatten(rows: Integers, start: Integers, end: Integers) -> Timeline:
    """The timeline of these rows, all of one thread. An event that outlives the one around it is cut there."""
    rows = rows[order(start[rows], end[rows])]
    times, owners = [BEGINNING], [NOBODY]
    stack: list[tuple[int, int]] = []

    def leave(until: int) -> None:
        while stack and stack[-1][0] <= until:
            finish, _ = stack.pop()
            times.append(finish)
            owners.append(stack[-1][1] if stack else NOBODY)

    for row, begin, finish in zip(rows.tolist(), start[rows].tolist(), end[rows].tolist(), strict=True):
        leave(begin)
        times.append(begin)
        owners.append(row)
        stack.append((min(finish, stack[-1][0]) if stack else finish, row))
    leave(np.iinfo(np.int64).max)
    return Timeline(np.array(times, dtype=np.int64), np.array(owners, dtype=np.int64))


def inherit(own: Integers, parent: Integers, depth: Integers) -> Integers:
    """For each row its own value, or where that is negative that of the nearest row around it that has one."""
    found = own.copy()
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero((depth == level) & (own < 0))
        found[rows] = found[parent[rows]]
    return found
