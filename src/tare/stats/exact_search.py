"""Bisection of a figure that is the same in every run of a candidate, such as a count: halving, no statistics."""

import math
from itertools import pairwise

from tare.stats.intervals import Interval
from tare.stats.search import Culprit, State, Verdict, between

# A culprit and its parent are run once more each: a figure that then differs was not exact.
VERIFYING_RUNS = 2


class ExactSearch:
    """Finds every step between neighbours whose figures differ. What lies between equals is taken to be equal."""

    def __init__(self, last: int, most_runs: int | None = None) -> None:
        if last < 1:
            raise ValueError("a search needs two candidates")
        self.last = last
        self.most_runs = most_runs or 4 * (last + 1)
        self.runs: dict[int, list[float]] = {}
        self.skipped: set[int] = set()

    def add(self, candidate: int, value: float) -> None:
        """One run: a count, zero included."""
        if not (math.isfinite(value) and value >= 0):
            raise ValueError("a count is a finite figure of at least zero")
        self.runs.setdefault(candidate, []).append(value)

    def skip(self, candidate: int) -> None:
        """A candidate that cannot be built or run: it is neither asked for again nor blamed."""
        self.skipped.add(candidate)
        self.runs.pop(candidate, None)

    @property
    def spent(self) -> int:
        return sum(map(len, self.runs.values()))

    def next(self) -> int | Verdict:
        if self.skipped & {0, self.last}:
            return "ends-failed"
        if any(len(set(values)) > 1 for values in self.runs.values()):
            return "not-exact"
        step = self._next_run()
        return "undecided" if isinstance(step, int) and self.spent >= self.most_runs else step

    def state(self) -> State:
        if not self.runs.keys() >= {0, self.last}:
            return State(None, [], [], None)
        return State(_ratio(self.runs[0][0], self.runs[self.last][0]), self._located(), [], None)

    def _next_run(self) -> int | Verdict:
        for end in (0, self.last):
            if end not in self.runs:
                return end
        steps = self._steps()
        if not steps:
            return "no-difference"
        for low, high in steps:
            inside = between(low, high, self.skipped)
            if inside:
                return inside[len(inside) // 2]
        for candidate in (candidate for step in steps for candidate in step):
            if len(self.runs[candidate]) < VERIFYING_RUNS:
                return candidate
        return "found"

    def _steps(self) -> list[tuple[int, int]]:
        measured = sorted(self.runs)
        return [(low, high) for low, high in pairwise(measured) if self.runs[low][0] != self.runs[high][0]]

    def _located(self) -> list[Culprit]:
        return [
            Culprit(low, high, 1.0, _ratio(self.runs[low][0], self.runs[high][0]))
            for low, high in self._steps()
            if not between(low, high, self.skipped)
        ]


def _ratio(before: float, after: float) -> Interval:
    ratio = after / before if before else math.inf
    return Interval(ratio, ratio, ratio)
