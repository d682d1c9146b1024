"""Which candidate of a bisection to run next, and when to stop. Pure: it neither builds nor measures.

Candidates 0 to `last` are in order; 0 is good and `last` is bad. A culprit is the first candidate of a new level.
`Search` is for a noisy figure; `ExactSearch` halves, for a figure that is equal in every run, such as a count.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tare.stats.comparison import welch
from tare.stats.drift import NORMAL, OUTLYING, estimate_drift
from tare.stats.intervals import Interval, Values, student_interval
from tare.stats.levels import Posterior, information, level_posterior

SearchVerdict = Literal["found", "no-difference", "undecided", "ends-failed", "not-exact"]

CONFIDENCE = 0.95
# Runs of each end before anything else; more while they overlap, up to the second number.
FIRST_RUNS, MAX_END_RUNS = 3, 24
# The ends must differ at this level before the search begins: a search without a difference is expensive.
END_LEVEL = 0.998
# Runs that a culprit and its parent must both have at the end, and how many of them alternately after all other
# runs, so that drift during the search cannot cause the difference.
VERIFYING_RUNS, MAX_VERIFYING_RUNS, ALTERNATING_RUNS = 5, 12, 3
# An end is run again at least once in so many runs, which shows how the machine drifts. Where the drift is faster
# than MAX_STEADY_RATE (in variances of the noise per run), every other run is one of an end.
ANCHOR_EVERY, MAX_STEADY_RATE, ANCHOR_EVERY_IN_DRIFT = 3, 0.05, 2
# The expected number of changes beforehand. The ends show that there is one, so this is about a second one.
EXPECTED_CHANGES = 0.02
# A gap in which a change is less likely than this is not worth a run.
NEGLIGIBLE = 0.002
# A gap of more candidates than this is not weighed candidate by candidate.
MAX_WEIGHED = 400
# Runs of a culprit and its parent in an exact search: a figure that differs in the second was not exact.
EXACT_VERIFYING_RUNS = 2


class Culprit(NamedTuple):
    """A change entered after candidate `parent` and at the latest with `culprit`; those between could not be
    measured. `ratio` is the culprit's figure over the parent's."""

    parent: int
    culprit: int
    probability: float
    ratio: Interval

    @property
    def suspects(self) -> range:
        return range(self.parent + 1, self.culprit + 1)


class SearchState(NamedTuple):
    """What is known so far: the ratio of the bad end to the good one, the culprits, for each candidate the
    probability that a change entered with it, and the noise of a run as a share."""

    ratio: Interval | None = None
    culprits: Sequence[Culprit] = ()
    probabilities: Sequence[float] = ()
    noise: float | None = None


class CandidateSearch(ABC):
    """Takes runs, names the next candidate. The same runs in the same order give the same search."""

    zero_allowed = False

    def __init__(self, last: int, max_runs: int) -> None:
        if last < 1:
            raise ValueError("a search needs two candidates")
        self.last, self.max_runs = last, max_runs
        self.skipped: set[int] = set()
        # Candidates and figures, in the order in which they were measured.
        self._measured: list[tuple[int, float]] = []
        self._runs: dict[int, list[float]] | None = None

    def add(self, candidate: int, value: float) -> None:
        """One run: a positive figure, such as seconds; a count may be zero."""
        if not (math.isfinite(value) and (value > 0 or (value == 0 and self.zero_allowed))):
            raise ValueError("a run is a positive, finite figure")
        self._measured.append((candidate, value))
        self._runs = None

    def skip(self, candidate: int) -> None:
        """A candidate that cannot be built or run is neither requested again nor blamed."""
        self.skipped.add(candidate)
        self._measured = [run for run in self._measured if run[0] != candidate]
        self._runs = None

    @property
    def runs(self) -> dict[int, list[float]]:
        """The runs of each candidate."""
        if self._runs is None:
            self._runs = {}
            for (candidate, _), value in zip(self._measured, self._values(), strict=True):
                self._runs.setdefault(candidate, []).append(float(value))
        return self._runs

    @property
    def spent(self) -> int:
        return len(self._measured)

    def next(self) -> int | SearchVerdict:
        """The candidate whose run helps most, or the verdict."""
        if self.skipped & {0, self.last}:
            return "ends-failed"
        missing = [end for end in (0, self.last) if end not in self.runs]
        step = missing[0] if missing else self._next_run()
        return "undecided" if isinstance(step, int) and self.spent >= self.max_runs else step

    def state(self) -> SearchState:
        return self._state() if self.runs.keys() >= {0, self.last} else SearchState()

    def _values(self) -> Iterable[float]:
        """The figures in the order in which they were measured, as the search compares them."""
        return [value for _, value in self._measured]

    @abstractmethod
    def _next_run(self) -> int | SearchVerdict:
        """The next candidate or the verdict, once both ends have been run."""

    @abstractmethod
    def _state(self) -> SearchState:
        """What is known once both ends have been run."""

    def _runnable_between(self, low: int, high: int) -> list[int]:
        return [candidate for candidate in range(low + 1, high) if candidate not in self.skipped]

    def _fewest_runs(self, pair: tuple[int, int]) -> int:
        return min(pair, key=lambda candidate: len(self.runs[candidate]))


class Search(CandidateSearch):
    """Compares logarithms, without the machine's drift."""

    def __init__(self, last: int, confidence: float = CONFIDENCE, max_runs: int | None = None) -> None:
        super().__init__(last, max_runs or 60 + 12 * math.ceil(math.log2(last + 1)))
        self.confidence = confidence
        self._drift_rate = 0.0

    def _values(self) -> Values:
        logs = np.log([value for _, value in self._measured])
        offsets, self._drift_rate = estimate_drift(self._order, logs)
        return logs - offsets

    def _state(self) -> SearchState:
        ratio = run_ratio(self.runs[0], self.runs[self.last], CONFIDENCE)
        if self._whole_change == 0:
            return SearchState(ratio)
        posterior = self.posterior()
        probabilities = [0.0] * (self.last + 1)
        for low, high, change in _gaps(posterior):
            probabilities[low + 1 : high + 1] = [change / (high - low)] * (high - low)
        return SearchState(ratio, self.culprits(posterior), probabilities, self._noise())

    def posterior(self) -> Posterior:
        good, whole = float(np.median(self.runs[0])), self._whole_change
        scaled = {c: [(value - good) / whole for value in values] for c, values in self.runs.items()}
        return level_posterior(scaled, rate=EXPECTED_CHANGES / (self.last + 1))

    def culprits(self, posterior: Posterior) -> list[Culprit]:
        """Changes that are located as closely as they can be, with enough confidence."""
        return [
            Culprit(low, high, change, run_ratio(self.runs[low], self.runs[high], CONFIDENCE))
            for low, high, change in _gaps(posterior)
            if change >= self.confidence and not self._runnable_between(low, high)
        ]

    @property
    def _order(self) -> list[int]:
        return [candidate for candidate, _ in self._measured]

    @property
    def _whole_change(self) -> float:
        """The change between the ends, as a logarithm."""
        by_median = float(np.median(self.runs[self.last]) - np.median(self.runs[0]))
        return by_median or float(np.mean(self.runs[self.last]) - np.mean(self.runs[0]))

    def _next_run(self) -> int | SearchVerdict:
        end = self._fewest_runs((0, self.last))
        count = len(self.runs[end])
        apart = self._are_apart(0, self.last, END_LEVEL)
        if count < FIRST_RUNS or (not apart and count < MAX_END_RUNS):
            return end
        if not apart:
            return "no-difference"
        posterior = self.posterior()
        culprits = self.culprits(posterior)
        if self._is_settled(posterior, culprits):
            return self._verify(culprits)
        anchor = self._anchor()
        return self._most_informative(posterior) if anchor is None else anchor

    def _noise(self) -> float | None:
        """The standard deviation of a run about its candidate's mean, by the median of all, so that a disturbed
        run does not count. (The posterior's scale is never under a 24th of the change.)"""
        repeated = [np.asarray(runs) for runs in self.runs.values() if len(runs) > 1]
        if not repeated:
            return None
        # Deviations from a mean of n are too small by this factor.
        deviations = [np.abs(runs - runs.mean()) * math.sqrt(runs.size / (runs.size - 1)) for runs in repeated]
        return NORMAL * float(np.median(np.concatenate(deviations)))

    def _is_settled(self, posterior: Posterior, culprits: list[Culprit]) -> bool:
        """Whether there are culprits and probably no change elsewhere."""
        parents = {culprit.parent for culprit in culprits}
        none_elsewhere = math.prod(1 - change for low, _, change in _gaps(posterior) if low not in parents)
        return bool(culprits) and 1 - none_elsewhere <= 1 - self.confidence

    def _anchor(self) -> int | None:
        """The end that has not been run for longest, if neither was run lately."""
        every = ANCHOR_EVERY if self._drift_rate < MAX_STEADY_RATE else ANCHOR_EVERY_IN_DRIFT
        if {0, self.last} & set(self._order[-every + 1 :]):
            return None
        return max((0, self.last), key=self._order[::-1].index)

    def _most_informative(self, posterior: Posterior) -> int:
        candidates: set[int] = set()
        for low, high, change in _gaps(posterior):
            if change >= NEGLIGIBLE:
                candidates |= {low, high, *self._runnable_between(low, high)}
        if not candidates:
            # No gap is likely to hold a change any more: then the ends themselves are in doubt.
            return self._fewest_runs((0, self.last))
        choice = sorted(candidates)
        choice = choice[:: max(len(choice) // MAX_WEIGHED, 1)]
        return choice[int(np.argmax(information(posterior, choice)))]

    def _verify(self, culprits: list[Culprit]) -> int | SearchVerdict:
        """Runs each culprit and its parent a few times more, alternately, before it is reported."""
        involved = {candidate for culprit in culprits for candidate in (culprit.parent, culprit.culprit)}
        latest = list(itertools.takewhile(involved.__contains__, reversed(self._order)))
        for culprit in culprits:
            pair = (culprit.parent, culprit.culprit)
            rarest = min(pair, key=latest.count)
            if latest.count(rarest) < ALTERNATING_RUNS:
                return rarest
            fewest = self._fewest_runs(pair)
            count = len(self.runs[fewest])
            apart = self._are_apart(*pair, CONFIDENCE)
            if count < VERIFYING_RUNS or (not apart and count < MAX_VERIFYING_RUNS):
                return fewest
            if not apart:
                return "undecided"
        return "found"

    def _are_apart(self, low: int, high: int, level: float) -> bool:
        ratio = run_ratio(self.runs[low], self.runs[high], level)
        return ratio.sound and not ratio.low <= 1 <= ratio.high


class ExactSearch(CandidateSearch):
    """Finds every change between neighbours whose figures differ. Candidates between two equal ones are taken to
    be equal as well."""

    zero_allowed = True

    def __init__(self, last: int, max_runs: int | None = None) -> None:
        super().__init__(last, max_runs or 4 * (last + 1))

    def _state(self) -> SearchState:
        changes = [pair for pair in self._changes() if not self._runnable_between(*pair)]
        return SearchState(
            self._ratio(0, self.last), [Culprit(*pair, 1.0, self._ratio(*pair)) for pair in changes]
        )

    def _next_run(self) -> int | SearchVerdict:
        if any(len(set(values)) > 1 for values in self.runs.values()):
            return "not-exact"
        changes = self._changes()
        if not changes:
            return "no-difference"
        for low, high in changes:
            if inside := self._runnable_between(low, high):
                return inside[len(inside) // 2]
        for candidate in itertools.chain.from_iterable(changes):
            if len(self.runs[candidate]) < EXACT_VERIFYING_RUNS:
                return candidate
        return "found"

    def _changes(self) -> list[tuple[int, int]]:
        pairs = itertools.pairwise(sorted(self.runs))
        return [(low, high) for low, high in pairs if self.runs[low][0] != self.runs[high][0]]

    def _ratio(self, low: int, high: int) -> Interval:
        before, after = self.runs[low][0], self.runs[high][0]
        ratio = after / before if before else math.inf
        return Interval(ratio, ratio, ratio)


def run_ratio(before: Sequence[float], after: Sequence[float], confidence: float) -> Interval:
    """The ratio of two sets of runs (given as logarithms), with Welch's interval; not sound for single runs.

    A disturbed run is clipped first: it could hide a difference that the others show.
    """
    a, b = _clip_outliers(before, after)
    if min(a.size, b.size) < 2:
        shift = float(b.mean() - a.mean())
        return Interval(shift, shift, shift, sound=False).exp()
    return student_interval(*welch(a, b), confidence).exp()


def _clip_outliers(*groups: Sequence[float]) -> list[Values]:
    """Clips values to their group's median plus or minus `OUTLYING` times the scale of all groups together."""
    arrays = [np.asarray(group, dtype=float) for group in groups]
    deviations = [values - np.median(values) for values in arrays]
    # The smallest deviation of a group is that of its median itself and carries no information.
    pooled = np.concatenate([np.sort(np.abs(each))[1:] for each in deviations])
    limit = OUTLYING * NORMAL * float(np.median(pooled)) if pooled.size else 0.0
    if limit == 0:
        return arrays
    return [v - d + np.clip(d, -limit, limit) for v, d in zip(arrays, deviations, strict=True)]


def _gaps(posterior: Posterior) -> Iterator[tuple[int, int, float]]:
    """Neighbours among the measured candidates, and the probability of a change between them."""
    for (low, high), change in zip(itertools.pairwise(posterior.measured), posterior.change, strict=True):
        yield low, high, float(change)
