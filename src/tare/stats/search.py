"""Noise-aware bisection: which candidate to run next, and when to stop. Pure: it neither builds nor measures.

Candidates 0 to `last` are in order; 0 is good and `last` is bad. A culprit is the first candidate of a new level.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.stats.drift import drift
from tare.stats.intervals import Interval
from tare.stats.levels import Posterior, information, level_posterior

Verdict = Literal["found", "no-difference", "undecided", "ends-failed", "not-exact"]

CONFIDENCE = 0.95
# Runs of each end before anything else; more while they overlap, up to the second number.
FIRST_RUNS, MOST_END_RUNS = 3, 24
# The ends must differ at this level before the search begins: to look for what is not there is expensive.
END_LEVEL = 0.998
# Runs that a culprit and its parent must both have at the end, and how many of them in turn, behind all others:
# what the machine did during the search cannot tell those apart.
VERIFYING_RUNS, MOST_VERIFYING_RUNS, IN_TURN = 5, 12, 3
# An end is run again at least once in so many runs: it is what shows how the machine drifts meanwhile. Where it
# drifts faster than this (the variance from run to run in units of the noise's), every other run is one of an end.
ANCHOR_EVERY, STEADY, ANCHOR_EVERY_IN_DRIFT = 3, 0.05, 2
# How many changes to expect beforehand. The ends say that there is one, so this is about a second one.
CHANGES = 0.02
# A gap in which a change is less likely than this is not worth a run.
NEGLIGIBLE = 0.002
# In scales of a normal distribution, whose median absolute deviation is 1 / 1.4826 of it.
OUTLYING, NORMAL = 3.0, 1.4826


class Culprit(NamedTuple):
    """A change entered after candidate `parent` and at the latest with `culprit`; those between could not be
    measured. `ratio` is the culprit's over the parent's."""

    parent: int
    culprit: int
    probability: float
    ratio: Interval

    @property
    def suspects(self) -> range:
        return range(self.parent + 1, self.culprit + 1)


class State(NamedTuple):
    """What a search knows so far: the bad end over the good one, culprits, for each candidate how probable it is
    that a change entered with it, and the noise of a run as a share."""

    whole: Interval | None
    culprits: list[Culprit]
    probabilities: list[float]
    noise: float | None


class Search:
    """Takes runs, names the next candidate. The same runs in the same order give the same search."""

    def __init__(self, last: int, confidence: float = CONFIDENCE, most_runs: int | None = None) -> None:
        if last < 1:
            raise ValueError("a search needs two candidates")
        self.last, self.confidence = last, confidence
        self.most_runs = most_runs or 60 + 12 * math.ceil(math.log2(last + 1))
        # In the order in which they were taken, as logarithms.
        self._taken: list[tuple[int, float]] = []
        self._runs: dict[int, list[float]] | None = None
        self._pace = 0.0
        self.skipped: set[int] = set()

    @property
    def runs(self) -> dict[int, list[float]]:
        """The runs of each candidate, as logarithms, without the machine's drift."""
        if self._runs is None:
            self._runs = {}
            walk, self._pace = drift([c for c, _ in self._taken], [value for _, value in self._taken])
            for (candidate, value), off in zip(self._taken, walk, strict=True):
                self._runs.setdefault(candidate, []).append(value - float(off))
        return self._runs

    def add(self, candidate: int, value: float) -> None:
        """One run: a positive figure, such as seconds."""
        if not (math.isfinite(value) and value > 0):
            raise ValueError("a run is a positive, finite figure")
        self._taken.append((candidate, math.log(value)))
        self._runs = None

    def skip(self, candidate: int) -> None:
        """A candidate that cannot be built or run: it is neither asked for again nor blamed."""
        self.skipped.add(candidate)
        self._taken = [run for run in self._taken if run[0] != candidate]
        self._runs = None

    @property
    def spent(self) -> int:
        return len(self._taken)

    @property
    def whole(self) -> float:
        """The change between the ends, as a logarithm."""
        by_median = float(np.median(self.runs[self.last]) - np.median(self.runs[0]))
        return by_median or float(np.mean(self.runs[self.last]) - np.mean(self.runs[0]))

    def next(self) -> int | Verdict:
        """The candidate whose run helps most, or the verdict."""
        if self.skipped & {0, self.last}:
            return "ends-failed"
        if self.spent >= self.most_runs and not self._is_found():
            return "undecided"
        ends = self._end_to_run()
        if ends is not None:
            return ends
        if not _apart(self.runs[0], self.runs[self.last], END_LEVEL):
            return "no-difference"
        posterior = self.posterior()
        culprits = self.culprits(posterior)
        if not self._settled(posterior, culprits):
            anchor = self._anchor()
            return self._most_informative(posterior) if anchor is None else anchor
        return self._verify(culprits)

    def _is_found(self) -> bool:
        """Whether the last run allowed was the one that settled it."""
        if not self.runs.keys() >= {0, self.last} or self._end_to_run() is not None or self.whole == 0:
            return False
        posterior = self.posterior()
        culprits = self.culprits(posterior)
        return self._settled(posterior, culprits) and self._verify(culprits) == "found"

    def posterior(self) -> Posterior:
        good, whole = float(np.median(self.runs[0])), self.whole
        scaled = {c: [(value - good) / whole for value in values] for c, values in self.runs.items()}
        return level_posterior(scaled, rate=CHANGES / (self.last + 1))

    def state(self) -> State:
        if not self.runs.keys() >= {0, self.last}:
            return State(None, [], [], None)
        whole = difference(self.runs[0], self.runs[self.last], CONFIDENCE)
        if self.whole == 0:
            return State(whole, [], [], None)
        posterior = self.posterior()
        return State(whole, self.culprits(posterior), self._probabilities(posterior), self._noise())

    def _noise(self) -> float | None:
        """How far a run lies from its candidate's mean, as a Gaussian's deviation, by the median of all: a
        disturbed run is not the noise of the others. Not the posterior's width, which is never under a 24th of the
        change."""
        several = [np.asarray(runs) for runs in self.runs.values() if len(runs) > 1]
        if not several:
            return None
        # Deviations from a mean of n are too small by this factor.
        away = [np.abs(runs - runs.mean()) * math.sqrt(runs.size / (runs.size - 1)) for runs in several]
        return NORMAL * float(np.median(np.concatenate(away)))

    def _probabilities(self, posterior: Posterior) -> list[float]:
        found = [0.0] * (self.last + 1)
        for low, high, change in zip(posterior.measured, posterior.measured[1:], posterior.change, strict=False):
            for candidate in range(low + 1, high + 1):
                found[candidate] = float(change) / (high - low)
        return found

    def culprits(self, posterior: Posterior) -> list[Culprit]:
        """Changes that are located as closely as they can be, with enough confidence."""
        found = []
        for low, high, change in zip(posterior.measured, posterior.measured[1:], posterior.change, strict=False):
            if change >= self.confidence and not between(low, high, self.skipped):
                found.append(
                    Culprit(low, high, float(change), difference(self.runs[low], self.runs[high], CONFIDENCE))
                )
        return found

    def _settled(self, posterior: Posterior, culprits: list[Culprit]) -> bool:
        elsewhere = 1.0
        named = {culprit.parent for culprit in culprits}
        for low, change in zip(posterior.measured, posterior.change, strict=False):
            if low not in named:
                elsewhere *= 1 - float(change)
        return bool(culprits) and 1 - elsewhere <= 1 - self.confidence

    def _end_to_run(self) -> int | None:
        for candidate in (0, self.last):
            if candidate not in self.runs:
                return candidate
        fewest = min((0, self.last), key=lambda c: len(self.runs[c]))
        count = len(self.runs[fewest])
        if count < FIRST_RUNS:
            return fewest
        apart = _apart(self.runs[0], self.runs[self.last], END_LEVEL)
        return None if apart or count >= MOST_END_RUNS else fewest

    def _anchor(self) -> int | None:
        """The end that was not run for longest, if neither was run lately."""
        order = [candidate for candidate, _ in self._taken]
        every = ANCHOR_EVERY if self._pace < STEADY else ANCHOR_EVERY_IN_DRIFT
        if {0, self.last} & set(order[-every + 1 :]):
            return None
        return min((0, self.last), key=lambda end: len(order) - order[::-1].index(end))

    def _most_informative(self, posterior: Posterior) -> int:
        candidates: set[int] = set()
        for low, high, change in zip(posterior.measured, posterior.measured[1:], posterior.change, strict=False):
            if change >= NEGLIGIBLE:
                candidates |= {low, high, *between(low, high, self.skipped)}
        if not candidates:
            # No gap holds a change any more: then the ends themselves are in doubt.
            return min((0, self.last), key=lambda c: len(self.runs[c]))
        # A gap of ten thousand commits need not be weighed commit by commit.
        choice = sorted(candidates)
        choice = choice[:: max(len(choice) // 400, 1)]
        return choice[int(np.argmax(information(posterior, choice)))]

    def _verify(self, culprits: list[Culprit]) -> int | Verdict:
        """A culprit and its parent are both run a few times more, in turn, before anyone is told."""
        named = {candidate for each in culprits for candidate in (each.parent, each.culprit)}
        order = [candidate for candidate, _ in self._taken]
        turns = list(itertools.takewhile(named.__contains__, reversed(order)))
        for culprit in culprits:
            pair = (culprit.parent, culprit.culprit)
            rarest = min(pair, key=turns.count)
            if turns.count(rarest) < IN_TURN:
                return rarest
            fewest = min(pair, key=lambda c: len(self.runs[c]))
            count = len(self.runs[fewest])
            apart = _apart(self.runs[culprit.parent], self.runs[culprit.culprit], CONFIDENCE)
            if count < VERIFYING_RUNS or (not apart and count < MOST_VERIFYING_RUNS):
                return fewest
            if not apart:
                return "undecided"
        return "found"


def between(low: int, high: int, skipped: set[int]) -> list[int]:
    """The candidates between two that can be run."""
    return [candidate for candidate in range(low + 1, high) if candidate not in skipped]


def difference(before: Sequence[float], after: Sequence[float], confidence: float) -> Interval:
    """The ratio of two sets of runs (given as logarithms), with Welch's interval; not sound for single runs.

    A run that was disturbed is drawn in to the others first: alone it would hide a difference that others show.
    """
    from scipy.special import stdtrit

    a, b = _drawn_in(before, after)
    middle = float(b.mean() - a.mean())
    if a.size < 2 or b.size < 2:
        return Interval(math.exp(middle), math.exp(middle), math.exp(middle), sound=False)
    parts = float(a.var(ddof=1)) / a.size, float(b.var(ddof=1)) / b.size
    half = 0.0
    if sum(parts) > 0:
        # As shares of their sum: the squares of tiny variances would vanish.
        left, right = parts[0] / sum(parts), parts[1] / sum(parts)
        freedom = 1 / (left**2 / (a.size - 1) + right**2 / (b.size - 1))
        half = float(stdtrit(freedom, 0.5 + confidence / 2)) * math.sqrt(sum(parts))
    return Interval(math.exp(middle - half), math.exp(middle), math.exp(middle + half))


def _drawn_in(*groups: Sequence[float]) -> list[NDArray[np.float64]]:
    """Values no farther from their group's median than `OUTLYING` times the scale of all groups together."""
    values = [np.asarray(group, dtype=float) for group in groups]
    middles = [float(np.median(each)) for each in values]
    # The smallest distance of a group is that of its median itself, and says nothing.
    away = np.concatenate([np.sort(np.abs(v - m))[1:] for v, m in zip(values, middles, strict=True)])
    limit = OUTLYING * NORMAL * float(np.median(away)) if away.size else 0.0
    if limit == 0:
        return values
    return [np.clip(each, middle - limit, middle + limit) for each, middle in zip(values, middles, strict=True)]


def _apart(before: Sequence[float], after: Sequence[float], level: float) -> bool:
    found = difference(before, after, level)
    return found.sound and not found.low <= 1 <= found.high
