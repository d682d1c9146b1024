"""Which candidate of a bisection to run next, and when to stop. Pure: it neither builds nor measures.

Candidates 0 to `last` are in order; 0 is good and `last` is bad. A culprit is the first candidate of a new level.
`Search` is for a noisy figure; `ExactSearch` halves, for a figure that is equal in every run, such as a count.

What decides whether anyone is accused, the comparison of the ends and that of a culprit with its parent, is
measured in pairs whose order is drawn at random. Without that, a machine that is slower in every second run names
a culprit among identical candidates.
"""

import itertools
import math
import random
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tare.stats.comparison import welch
from tare.stats.drift import NORMAL, OUTLYING, estimate_drift
from tare.stats.intervals import Interval, Values, student_interval
from tare.stats.levels import Posterior, information, level_posterior
from tare.stats.ordered_pairs import OrderedPair, OrderedPairTest

SearchVerdict = Literal["found", "no-difference", "undecided", "ends-failed", "not-exact"]

CONFIDENCE = 0.95
# Pairs of the ends before anything else; more while they overlap, up to the second number.
FIRST_PAIRS, MAX_END_PAIRS = 3, 24
# The ends must differ at this level, and by this much evidence, before the search begins: a search without a
# difference is expensive.
END_LEVEL, END_EVIDENCE = 0.98, 2.5
# The evidence of all pairs together that anything differs at all. If nothing does, that is reached in at most one
# bisection in a hundred, whatever the noise.
EVIDENCE = 100.0
# Pairs of a culprit and its parent at the end. Their evidence alone must be as strong as the confidence.
VERIFYING_PAIRS, MAX_VERIFYING_PAIRS = 3, 16
# A pair of the ends follows after so many other runs, which shows how the machine drifts. Where the drift is
# faster than MAX_STEADY_RATE (in variances of the noise per run), every other run is one of an end.
RUNS_BETWEEN_ENDS, MAX_STEADY_RATE, RUNS_BETWEEN_ENDS_IN_DRIFT = 4, 0.05, 2
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
        step = self._next_run()
        return "undecided" if isinstance(step, int) and self.spent >= self.max_runs else step

    def state(self) -> SearchState:
        return self._state() if self.runs.keys() >= {0, self.last} else SearchState()

    def _values(self) -> Iterable[float]:
        """The figures in the order in which they were measured, as the search compares them."""
        return [value for _, value in self._measured]

    @abstractmethod
    def _next_run(self) -> int | SearchVerdict:
        """The next candidate or the verdict."""

    @abstractmethod
    def _state(self) -> SearchState:
        """What is known once both ends have been run."""

    def _runnable_between(self, low: int, high: int) -> list[int]:
        return [candidate for candidate in range(low + 1, high) if candidate not in self.skipped]


class _BegunPair(NamedTuple):
    """A pair whose first run is the one that is asked for, or has just been made. `time` counts all runs."""

    time: int
    first: int
    second: int


class Search(CandidateSearch):
    """Compares logarithms, without the machine's drift. `seed` decides the order within the pairs; it is drawn
    where it is not given, and a search that is to be repeated needs the same."""

    def __init__(
        self, last: int, confidence: float = CONFIDENCE, max_runs: int | None = None, seed: int | None = None
    ) -> None:
        super().__init__(last, max_runs or 60 + 12 * math.ceil(math.log2(last + 1)))
        self.confidence = confidence
        self.seed = secrets.randbits(32) if seed is None else seed
        self._drift_rate = 0.0
        self._time = 0
        self._begun: _BegunPair | None = None
        self._pairs: list[OrderedPair] = []
        # The change from a parent to its culprit as it was known before they were compared in pairs.
        self._expected: dict[tuple[int, int], float] = {}

    def add(self, candidate: int, value: float) -> None:
        super().add(candidate, value)
        begun = self._begun
        if begun and (self._time, candidate) == (begun.time + 1, begun.second):
            low, high = sorted((begun.first, begun.second))
            difference = math.log(value) - math.log(self._measured[-2][1])
            self._pairs.append(OrderedPair(low, high, begun.time, difference, high_first=begun.first == high))
        if begun and (self._time, candidate) != (begun.time, begun.first):
            self._begun = None
        self._time += 1

    def skip(self, candidate: int) -> None:
        super().skip(candidate)
        self._begun = None
        self._pairs = [pair for pair in self._pairs if candidate not in (pair.low, pair.high)]

    def evidence(self) -> float:
        """That any two candidates differ."""
        return self._bet(self._pairs).evidence

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
        if self._begun and self._time == self._begun.time + 1:
            return self._begun.second
        ends = (0, self.last)
        count = len(self._pairs_of(*ends))
        apart = count >= FIRST_PAIRS and self._are_apart(*ends, END_LEVEL) and self.evidence() >= END_EVIDENCE
        if count < FIRST_PAIRS or (not apart and count < MAX_END_PAIRS):
            return self._begin_pair(*ends)
        if not apart:
            return "no-difference"
        posterior = self.posterior()
        culprits = self.culprits(posterior)
        if self._is_settled(posterior, culprits):
            return self._verify(culprits)
        return self._begin_pair(*ends) if self._ends_are_due() else self._most_informative(posterior)

    def _begin_pair(self, low: int, high: int) -> int:
        """The candidate to run first. The order depends on the seed and the time alone: a resumed search draws the
        same."""
        order = (low, high) if random.Random(f"{self.seed} {self._time}").random() < 0.5 else (high, low)
        self._begun = _BegunPair(self._time, *order)
        return order[0]

    def _bet(self, pairs: Sequence[OrderedPair]) -> OrderedPairTest:
        """The test by these of all pairs."""
        test = OrderedPairTest()
        for pair in self._pairs:
            test.add(pair, bet_on=pair in pairs)
        return test

    def _pairs_of(self, low: int, high: int) -> list[OrderedPair]:
        return [pair for pair in self._pairs if (pair.low, pair.high) == (low, high)]

    def _noise(self) -> float | None:
        """The standard deviation of a run about its candidate's median, by the median of all, so that a disturbed
        run does not count. (The posterior's scale is never under a 24th of the change.)"""
        repeated = [np.asarray(runs) for runs in self.runs.values() if len(runs) > 1]
        if not repeated:
            return None
        # Of an odd number one is the median itself. Deviations from the centre of n are too small by this factor.
        deviations = [
            np.sort(np.abs(runs - np.median(runs)))[runs.size % 2 :] * math.sqrt(runs.size / (runs.size - 1))
            for runs in repeated
        ]
        return NORMAL * float(np.median(np.concatenate(deviations)))

    def _is_settled(self, posterior: Posterior, culprits: list[Culprit]) -> bool:
        """Whether there are culprits and probably no change elsewhere."""
        parents = {culprit.parent for culprit in culprits}
        none_elsewhere = math.prod(1 - change for low, _, change in _gaps(posterior) if low not in parents)
        return bool(culprits) and 1 - none_elsewhere <= 1 - self.confidence

    def _ends_are_due(self) -> bool:
        between = RUNS_BETWEEN_ENDS if self._drift_rate < MAX_STEADY_RATE else RUNS_BETWEEN_ENDS_IN_DRIFT
        return not {0, self.last} & set(self._order[-between:])

    def _most_informative(self, posterior: Posterior) -> int:
        candidates: set[int] = set()
        for low, high, change in _gaps(posterior):
            if change >= NEGLIGIBLE:
                candidates |= {low, high, *self._runnable_between(low, high)}
        if not candidates:
            # No gap is likely to hold a change any more: then the ends themselves are in doubt.
            return self._begin_pair(0, self.last)
        choice = sorted(candidates)
        choice = choice[:: max(len(choice) // MAX_WEIGHED, 1)]
        return choice[int(np.argmax(information(posterior, choice)))]

    def _verify(self, culprits: list[Culprit]) -> int | SearchVerdict:
        """Runs each culprit and its parent in pairs until they differ beyond doubt."""
        for culprit in culprits:
            pair = (culprit.parent, culprit.culprit)
            count = len(self._pairs_of(*pair))
            expected = self._expected.setdefault(pair, culprit.ratio.mid - 1)
            evidence = self._bet(self._pairs_of(*pair)).evidence_toward(expected)
            apart = (
                self._are_apart(*pair, CONFIDENCE)
                and evidence >= 1 / (1 - self.confidence)
                and self.evidence() >= EVIDENCE
            )
            if count < VERIFYING_PAIRS or (not apart and count < MAX_VERIFYING_PAIRS):
                return self._begin_pair(*pair)
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
        missing = [end for end in (0, self.last) if end not in self.runs]
        if missing:
            return missing[0]
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
