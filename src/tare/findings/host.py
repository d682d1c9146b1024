"""Host time of a recording of which parts vanish."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tare.trace.intervals import Integers, Intervals, normal


def as_intervals(spans: Sequence[tuple[int, int]]) -> Intervals:
    return np.array(spans, dtype=np.int64).reshape(-1, 2)


class HostTime(NamedTuple):
    """Nanoseconds of the host: before each call, in it (where it waited: afterwards), and after the last."""

    before: list[int]
    inside: list[int]
    after: int


class Left:
    """What is left of stretches of host time of which parts vanish."""

    def __init__(self, removed: Intervals) -> None:
        united = normal(removed)
        self._starts, self._ends = united[:, 0], united[:, 1]
        self._before = np.concatenate([[0], np.cumsum(self._ends - self._starts)])

    def of(self, starts: Integers, ends: Integers) -> list[int]:
        """Of each stretch; nothing of one that ends before it begins."""
        ends = np.maximum(starts, ends)
        found: list[int] = (ends - starts - (self._up_to(ends) - self._up_to(starts))).tolist()
        return found

    def _up_to(self, points: Integers) -> Integers:
        index = np.searchsorted(self._starts, points, side="right")
        if not len(self._ends):
            return np.zeros_like(points)
        reached = self._before[index] - np.maximum(self._ends[np.maximum(index - 1, 0)] - points, 0)
        return np.where(index == 0, 0, reached)
