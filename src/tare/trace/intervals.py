"""Sets of half-open intervals on a line of integers (nanoseconds), as arrays of shape (n, 2).

A *normal* set is sorted, and its intervals neither touch nor are empty; every function returns a normal set and
takes any. All arithmetic is on int64, so sizes add up exactly: |A| = |A and B| + |A minus B| to the nanosecond.
Our own, because the interval libraries on PyPI hold one Python object per interval; a trace has a million.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Intervals = npt.NDArray[np.int64]
Integers = npt.NDArray[np.int64]

EMPTY: Intervals = np.empty((0, 2), dtype=np.int64)


def make(starts: npt.ArrayLike, ends: npt.ArrayLike) -> Intervals:
    """The union of the intervals [start, end); those that are empty or backwards vanish."""
    pairs = np.stack([np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)], axis=-1)
    return normal(pairs.reshape(-1, 2))


def normal(intervals: Intervals) -> Intervals:
    """The same set, sorted, with what overlaps or touches merged."""
    filled = intervals[:, 0] < intervals[:, 1]
    if filled.all():
        if (intervals[1:, 0] > intervals[:-1, 1]).all():
            return intervals
        kept = intervals
    else:
        kept = intervals[filled]
    if len(kept) == 0:
        return EMPTY
    kept = kept[np.argsort(kept[:, 0], kind="stable")]
    reach = np.maximum.accumulate(kept[:, 1])
    first = np.ones(len(kept), dtype=bool)
    first[1:] = kept[1:, 0] > reach[:-1]
    last = np.append(first[1:], True)
    return np.stack([kept[first, 0], reach[last]], axis=1)


def union(*sets: Intervals) -> Intervals:
    return normal(np.concatenate(sets)) if sets else EMPTY


def intersection(left: Intervals, right: Intervals) -> Intervals:
    """What is in both: where the two sets together cover a point twice."""
    return _covered([normal(left), normal(right)], at_least=2)


def difference(left: Intervals, right: Intervals) -> Intervals:
    """What is in `left` and not in `right`."""
    left = normal(left)
    if len(left) == 0:
        return EMPTY
    return intersection(left, complement(right, int(left[0, 0]), int(left[-1, 1])))


def complement(intervals: Intervals, start: int, end: int) -> Intervals:
    """What is in [start, end) and not in `intervals`: the gaps, with those before the first and after the last."""
    if start >= end:
        return EMPTY
    inside = clip(intervals, start, end)
    starts = np.concatenate([[start], inside[:, 1]])
    ends = np.concatenate([inside[:, 0], [end]])
    return make(starts, ends)


def clip(intervals: Intervals, start: int, end: int) -> Intervals:
    """The part that lies in [start, end)."""
    return normal(np.clip(intervals, start, max(start, end)))


def divided(starts: npt.ArrayLike, ends: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The part of their union that each interval stands for: where several overlap, each has an equal share."""
    first = np.asarray(starts, dtype=np.int64)
    last = np.maximum(np.asarray(ends, dtype=np.int64), first)
    points = np.unique(np.concatenate([first, last]))
    begins, finishes = np.searchsorted(points, first), np.searchsorted(points, last)
    change = np.bincount(begins, minlength=len(points)) - np.bincount(finishes, minlength=len(points))
    covering = np.cumsum(change)[:-1]
    passed = np.where(covering > 0, np.diff(points) / np.maximum(covering, 1), 0.0)
    reached = np.concatenate([[0.0], np.cumsum(passed)])
    found: npt.NDArray[np.float64] = reached[finishes] - reached[begins]
    return found


def total(intervals: Intervals) -> int:
    """The size of the set: what overlaps counts once."""
    merged = normal(intervals)
    return int((merged[:, 1] - merged[:, 0]).sum())


def contains(intervals: Intervals, points: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """For each point, whether it lies in the set."""
    merged = normal(intervals)
    at = np.asarray(points, dtype=np.int64)
    if len(merged) == 0:
        return np.zeros(at.shape, dtype=bool)
    index = np.searchsorted(merged[:, 0], at, side="right") - 1
    inside: npt.NDArray[np.bool_] = (index >= 0) & (at < merged[np.maximum(index, 0), 1])
    return inside


def covered_length(intervals: Intervals, starts: npt.ArrayLike, ends: npt.ArrayLike) -> Integers:
    """For each [start, end), how much of it the set covers; one pass for all of them."""
    merged = normal(intervals)
    before = np.concatenate([[0], np.cumsum(merged[:, 1] - merged[:, 0])]).astype(np.int64)

    def up_to(points: Integers) -> Integers:
        """|set before the point|."""
        if len(merged) == 0:
            return np.zeros(points.shape, dtype=np.int64)
        index = np.searchsorted(merged[:, 0], points, side="right") - 1
        at = np.maximum(index, 0)
        partial = np.minimum(points, merged[at, 1]) - merged[at, 0]
        return np.where(index < 0, 0, before[at] + partial)

    first, last = np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)
    return np.where(last > first, up_to(last) - up_to(first), 0)


def _covered(sets: Iterable[Intervals], at_least: int) -> Intervals:
    """The points that lie in at least so many of the (normal) sets."""
    merged = np.concatenate(list(sets))
    if len(merged) == 0:
        return EMPTY
    points = merged.reshape(-1)
    change = np.tile(np.array([1, -1], dtype=np.int64), len(merged))
    order = np.argsort(points, kind="stable")
    points, depth = points[order], np.cumsum(change[order])
    inside = depth[:-1] >= at_least
    return make(points[:-1][inside], points[1:][inside])
