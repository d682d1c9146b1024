"""What a host thread did at each moment: the innermost of its events, as a line of segments without holes."""

from dataclasses import dataclass

import numpy as np

from tare.trace.intervals import Integers

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
        from_ = np.maximum(begin.take(piece), self.start.take(segment))
        to = np.minimum(end.take(piece), following.take(segment))
        kept = np.flatnonzero(to > from_)
        return piece.take(kept), from_.take(kept), to.take(kept), self.owner.take(segment.take(kept))

    def merged(self, kinds: Integers) -> "Timeline":
        """Neighbours of one kind as one segment, which the first of them owns."""
        first = np.ones(len(kinds), dtype=bool)
        first[1:] = kinds[1:] != kinds[:-1]
        rows = np.flatnonzero(first)
        return Timeline(self.start.take(rows), self.owner.take(rows))


def flatten(rows: Integers, start: Integers, end: Integers, parent: Integers) -> Timeline:
    """The timeline of these rows, all of one thread, in `order` and nested by `nest`, with ends `enclosed`."""
    # What has no length owns nothing.
    rows = rows[end[rows] > start[rows]]
    # At a row's start it becomes the owner, at its end its parent does. At one moment, ends come before starts,
    # inner ends before outer ones, and outer starts before inner ones: the last to come is right.
    inwards = rows[::-1]
    times = np.concatenate([end[inwards], start[rows]])
    owners = np.concatenate([parent[inwards], rows])
    order = np.argsort(times, kind="stable")
    return Timeline(np.append(BEGINNING, times.take(order)), np.append(NOBODY, owners.take(order)))
