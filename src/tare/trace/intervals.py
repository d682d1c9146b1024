"""Sets of half-open intervals of integers (nanoseconds), as arrays of shape (n, 2).

A *normal* set is sorted, and its intervals are not empty and do not touch. Every function accepts any set and
returns a normal one. All arithmetic is on int64, so sizes add up exactly: |A| = |A and B| + |A minus B|. The
interval libraries on PyPI hold one Python object per interval; a trace has a million.
"""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Intervals = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

EMPTY: Intervals = np.empty((0, 2), dtype=np.int64)


def make(starts: npt.ArrayLike, ends: npt.ArrayLike) -> Intervals:
    """The union of the intervals [start, end). Empty and reversed intervals are dropped."""
    pairs = np.stack([np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)], axis=-1)
    return normal(pairs.reshape(-1, 2))


def normal(intervals: Intervals) -> Intervals:
    filled = intervals[:, 0] < intervals[:, 1]
    if filled.all():
        if (intervals[1:, 0] > intervals[:-1, 1]).all():
            return intervals
    else:
        intervals = intervals[filled]
    if len(intervals) == 0:
        return EMPTY
    intervals = intervals[np.argsort(intervals[:, 0], kind="stable")]
    reach = np.maximum.accumulate(intervals[:, 1])
    first = np.ones(len(intervals), dtype=bool)
    first[1:] = intervals[1:, 0] > reach[:-1]
    last = np.append(first[1:], True)
    return np.stack([intervals[first, 0], reach[last]], axis=1)


def union(*sets: Intervals) -> Intervals:
    return normal(np.concatenate(sets)) if sets else EMPTY


def intersection(left: Intervals, right: Intervals) -> Intervals:
    """The points that the two normal sets together cover twice."""
    merged = np.concatenate([normal(left), normal(right)])
    if len(merged) == 0:
        return EMPTY
    points = merged.reshape(-1)
    change = np.tile(np.array([1, -1], dtype=np.int64), len(merged))
    order = np.argsort(points, kind="stable")
    points, depth = points[order], np.cumsum(change[order])
    inside = depth[:-1] >= 2
    return make(points[:-1][inside], points[1:][inside])


def difference(left: Intervals, right: Intervals) -> Intervals:
    left = normal(left)
    if len(left) == 0:
        return EMPTY
    return intersection(left, complement(right, int(left[0, 0]), int(left[-1, 1])))


def complement(intervals: Intervals, start: int, end: int) -> Intervals:
    """The gaps of a set in [start, end), with those before its first and after its last interval."""
    if start >= end:
        return EMPTY
    inside = clip(intervals, start, end)
    return make(np.concatenate([[start], inside[:, 1]]), np.concatenate([inside[:, 0], [end]]))


def clip(intervals: Intervals, start: int, end: int) -> Intervals:
    """The part that lies in [start, end)."""
    return normal(np.clip(intervals, start, max(start, end)))


def divide_overlaps(starts: npt.ArrayLike, ends: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The length of each interval where every stretch that several intervals cover is divided equally among them.

    The lengths add up to the size of the union.
    """
    first = np.asarray(starts, dtype=np.int64)
    last = np.maximum(np.asarray(ends, dtype=np.int64), first)
    points = distinct(np.concatenate([first, last]))
    begins, finishes = np.searchsorted(points, first), np.searchsorted(points, last)
    change = np.bincount(begins, minlength=len(points)) - np.bincount(finishes, minlength=len(points))
    covering = np.cumsum(change)[:-1]
    shares = np.where(covering > 0, np.diff(points) / np.maximum(covering, 1), 0.0)
    reached = np.concatenate([[0.0], np.cumsum(shares)])
    lengths: npt.NDArray[np.float64] = reached[finishes] - reached[begins]
    return lengths


def total(intervals: Intervals) -> int:
    """The size of the set. Overlaps count once."""
    merged = normal(intervals)
    return int((merged[:, 1] - merged[:, 0]).sum())


def contains(intervals: Intervals, points: npt.ArrayLike) -> Mask:
    """For each point, whether it lies in the set."""
    at = np.asarray(points, dtype=np.int64)
    return np.greater(covered_length(intervals, at, at + 1), 0)


def covered_length(intervals: Intervals, starts: npt.ArrayLike, ends: npt.ArrayLike) -> Integers:
    """For each [start, end), how much of it the set covers; one pass for all of them."""
    merged = normal(intervals)
    before = np.append(0, np.cumsum(merged[:, 1] - merged[:, 0]))
    reach = np.append(np.iinfo(np.int64).min, merged[:, 1])

    def size_before(points: Integers) -> Integers:
        index = np.searchsorted(merged[:, 0], points, side="right")
        # Less what the last interval has beyond the point.
        size: Integers = before[index] - (np.maximum(reach[index], points) - points)
        return size

    first, last = np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)
    return np.where(last > first, size_before(last) - size_before(first), 0)


def distinct(values: Integers) -> Integers:
    """Each value once, in order. np.unique hashes integers; sorting them is ten times as fast."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]
