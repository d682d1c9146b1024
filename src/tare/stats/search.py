"""Which candidate of a bisection to run next, and when to stop. Pure: it neither builds nor measures.

Candidates 0 to `last` are in order; 0 is good and `last` is bad. A culprit is the first candidate of a new level.
`Search` is for a noisy figure; `ExactSearch` halves, for a figure that is equal in every run, such as a count.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.stats.comparison import welch
from tare.stats.drift import estimate_drift
from tare.stats.intervals import Interval, student_interval
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
# Outliers are clipped at so many scales; NORMAL is the scale of a normal distribution over its median deviation.
OUTLYING, NORMAL = 3.0, 1.4826
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

    ratio: Interval | None
    culprits: list[Culprit]
    probabilities: list[float]
    noise: float | None


class Search:
    """Takes runs, names the next candidate. The same runs in the same order give the same search."""

    def __init__(self, last: int, confidence: float = CONFIDENCE, max_runs: int | None = None) -> None:
        if last < 1:
            raise ValueError("a search needs two candidates")
        self.last, self.confidence = last, confidence
        self.max_runs = max_runs or 60 + 12 * math.ceil(math.log2(last + 1))
        self.skipped: set[int] = set()
        # Candidates and logarithms, in the order in which they were measured.
        self._measured: list[tuple[int, float]] = []
        self._runs: dict[int, list[float]] | None = None
        self._drift_rate = 0.0

    @property
    def runs(self) -> dict[int, list[float]]:
        """The runs of each candidate, as logarithms, without the machine's drift."""
        if self._runs is None:
            self._runs = {}
            candidates, values = [c for c, _ in self._measured], [value for _, value in self._measured]
            offsets, self._drift_rate = estimate_drift(candidates, values)
            for candidate, value, offset in zip(candidates, values, offsets, strict=True):
                self._runs.setdefault(candidate, []).append(value - float(offset))
        return self._runs

    def add(self, candidate: int, value: float) -> None:
        """One run: a positive figure, such as seconds."""
        if not (math.isfinite(value) and value > 0):
            raise ValueError("a run is a positive, finite figure")
        self._measured.append((candidate, math.log(value)))
        self._runs = None

    def skip(self, candidate: int) -> None:
        """A candidate that cannot be built or run is neither requested again nor blamed."""
        self.skipped.add(candidate)
        self._measured = [run for run in self._measured if run[0] != candidate]
        self._runs = None

    @property
    def spent(self) -> int:
        return len(self._measured)

    def next(self) -> int | SearchVerdict:
        """The candidate whose run helps most, or the verdict."""
        if self.skipped & {0, self.last}:
            return "ends-failed"
        if self.spent >= self.max_runs:
            return "found" if self._is_found() else "undecided"
        end = self._end_to_run()
        if end is not None:
            return end
        if not _are_apart(self.runs[0], self.runs[self.last], END_LEVEL):
            return "no-difference"
        posterior = self.posterior()
        culprits = self.culprits(posterior)
        if self._is_settled(posterior, culprits):
            return self._verify(culprits)
        anchor = self._anchor()
        return self._most_informative(posterior) if anchor is None else anchor

    def state(self) -> SearchState:
        if not self.runs.keys() >= {0, self.last}:
            return SearchState(None, [], [], None)
        ratio = run_ratio(self.runs[0], self.runs[self.last], CONFIDENCE)
        if self._whole_change == 0:
            return SearchState(ratio, [], [], None)
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
            if change >= self.confidence and not runnable_between(low, high, self.skipped)
        ]

    @property
    def _whole_change(self) -> float:
        """The change between the ends, as a logarithm."""
        by_median = float(np.median(self.runs[self.last]) - np.median(self.runs[0]))
        return by_median or float(np.mean(self.runs[self.last]) - np.mean(self.runs[0]))

    def _is_found(self) -> bool:
        """Whether the last run allowed settled the search."""
        if not self.runs.keys() >= {0, self.last} or self._end_to_run() is not None or self._whole_change == 0:
            return False
        posterior = self.posterior()
        culprits = self.culprits(posterior)
        return self._is_settled(posterior, culprits) and self._verify(culprits) == "found"

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

    def _end_to_run(self) -> int | None:
        for end in (0, self.last):
            if end not in self.runs:
                return end
        fewest = min((0, self.last), key=lambda c: len(self.runs[c]))
        count = len(self.runs[fewest])
        if count < FIRST_RUNS:
            return fewest
        apart = _are_apart(self.runs[0], self.runs[self.last], END_LEVEL)
        return None if apart or count >= MAX_END_RUNS else fewest

    def _anchor(self) -> int | None:
        """The end that has not been run for longest, if neither was run lately."""
        order = [candidate for candidate, _ in self._measured]
        every = ANCHOR_EVERY if self._drift_rate < MAX_STEADY_RATE else ANCHOR_EVERY_IN_DRIFT
        if {0, self.last} & set(order[-every + 1 :]):
            return None
        return min((0, self.last), key=lambda end: len(order) - order[::-1].index(end))

    def _most_informative(self, posterior: Posterior) -> int:
        candidates: set[int] = set()
        for low, high, change in _gaps(posterior):
            if change >= NEGLIGIBLE:
                candidates |= {low, high, *runnable_between(low, high, self.skipped)}
        if not candidates:
            # No gap is likely to hold a change any more: then the ends themselves are in doubt.
            return min((0, self.last), key=lambda c: len(self.runs[c]))
        choice = sorted(candidates)
        choice = choice[:: max(len(choice) // MAX_WEIGHED, 1)]
        return choice[int(np.argmax(information(posterior, choice)))]

    def _verify(self, culprits: list[Culprit]) -> int | SearchVerdict:
        """Runs each culprit and its parent a few times more, alternately, before it is reported."""
        involved = {candidate for culprit in culprits for candidate in (culprit.parent, culprit.culprit)}
        order = [candidate for candidate, _ in self._measured]
        latest = list(itertools.takewhile(involved.__contains__, reversed(order)))
        for culprit in culprits:
            pair = (culprit.parent, culprit.culprit)
            rarest = min(pair, key=latest.count)
            if latest.count(rarest) < ALTERNATING_RUNS:
                return rarest
            fewest = min(pair, key=lambda c: len(self.runs[c]))
            count = len(self.runs[fewest])
            apart = _are_apart(self.runs[culprit.parent], self.runs[culprit.culprit], CONFIDENCE)
            if count < VERIFYING_RUNS or (not apart and count < MAX_VERIFYING_RUNS):
                return fewest
            if not apart:
                return "undecided"
        return "found"


class ExactSearch:
    """Finds every change between neighbours whose figures differ. Candidates between two equal ones are taken to
    be equal as well."""

    def __init__(self, last: int, max_runs: int | None = None) -> None:
        if last < 1:
            raise ValueError("a search needs two candidates")
        self.last = last
        self.max_runs = max_runs or 4 * (last + 1)
        self.runs: dict[int, list[float]] = {}
        self.skipped: set[int] = set()

    def add(self, candidate: int, value: float) -> None:
        """One run: a count, zero included."""
        if not (math.isfinite(value) and value >= 0):
            raise ValueError("a count is a finite figure of at least zero")
        self.runs.setdefault(candidate, []).append(value)

    def skip(self, candidate: int) -> None:
        """A candidate that cannot be built or run is neither requested again nor blamed."""
        self.skipped.add(candidate)
        self.runs.pop(candidate, None)

    @property
    def spent(self) -> int:
        return sum(map(len, self.runs.values()))

    def next(self) -> int | SearchVerdict:
        if self.skipped & {0, self.last}:
            return "ends-failed"
        if any(len(set(values)) > 1 for values in self.runs.values()):
            return "not-exact"
        step = self._next_run()
        return "undecided" if isinstance(step, int) and self.spent >= self.max_runs else step

    def state(self) -> SearchState:
        if not self.runs.keys() >= {0, self.last}:
            return SearchState(None, [], [], None)
        culprits = [
            Culprit(low, high, 1.0, self._ratio(low, high))
            for low, high in self._changes()
            if not runnable_between(low, high, self.skipped)
        ]
        return SearchState(self._ratio(0, self.last), culprits, [], None)

    def _next_run(self) -> int | SearchVerdict:
        for end in (0, self.last):
            if end not in self.runs:
                return end
        changes = self._changes()
        if not changes:
            return "no-difference"
        for low, high in changes:
            inside = runnable_between(low, high, self.skipped)
            if inside:
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


def runnable_between(low: int, high: int, skipped: set[int]) -> list[int]:
    return [candidate for candidate in range(low + 1, high) if candidate not in skipped]


def run_ratio(before: Sequence[float], after: Sequence[float], confidence: float) -> Interval:
    """The ratio of two sets of runs (given as logarithms), with Welch's interval; not sound for single runs.

    A disturbed run is clipped first: it could hide a difference that the others show.
    """
    a, b = _clip_outliers(before, after)
    if min(a.size, b.size) < 2:
        shift = float(b.mean() - a.mean())
        return Interval(shift, shift, shift, sound=False).exp()
    return student_interval(*welch(a, b), confidence).exp()


def _clip_outliers(*groups: Sequence[float]) -> list[NDArray[np.float64]]:
    """Clips values to their group's median plus or minus `OUTLYING` times the scale of all groups together."""
    arrays = [np.asarray(group, dtype=float) for group in groups]
    medians = [float(np.median(values)) for values in arrays]
    # The smallest deviation of a group is that of its median itself and carries no information.
    deviations = [np.sort(np.abs(v - m))[1:] for v, m in zip(arrays, medians, strict=True)]
    pooled = np.concatenate(deviations)
    limit = OUTLYING * NORMAL * float(np.median(pooled)) if pooled.size else 0.0
    if limit == 0:
        return arrays
    return [
        np.clip(values, median - limit, median + limit) for values, median in zip(arrays, medians, strict=True)
    ]


def _are_apart(before: Sequence[float], after: Sequence[float], level: float) -> bool:
    ratio = run_ratio(before, after, level)
    return ratio.sound and not ratio.low <= 1 <= ratio.high


def _gaps(posterior: Posterior) -> Iterator[tuple[int, int, float]]:
    """Neighbours among the measured candidates, and the probability of a change between them."""
    for (low, high), change in zip(itertools.pairwise(posterior.measured), posterior.change, strict=True):
        yield low, high, float(change)
