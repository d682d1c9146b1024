"""A check: measure, suspect, measure the suspects again in fresh processes, and only then report."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import Executor
from tare.execute.runner import Listener, Side, make_record
from tare.guard.changes import CaseChange, Change, Report
from tare.guard.compare import (
    Tested,
    adjust,
    apart,
    case_change,
    comparable,
    conclude,
    failed_rounds,
    failures_of,
    match,
    newly_failing,
    shared_change,
    summary,
    test,
)
from tare.guard.leak import leaks
from tare.guard.metrics import Metric
from tare.guard.missing import absences, refuse_nothing
from tare.guard.sides import LetGo, Renew, measure_sides
from tare.guard.thresholds import Thresholds
from tare.records.record import Record, Round
from tare.stats.comparison import RANK_TEST_P, Comparison, adjust_p_values
from tare.stats.power import detectable_change, process_noise
from tare.stats.two_stage import (
    LEVEL,
    confirm,
    is_futile,
    is_suspect,
    rounds_to_confirm,
    rounds_to_repeat_failure,
)

# The stages of a check, as the runs in the store are told apart.
StageName = str
OpenSides = Callable[[StageName], Sequence[Side[Executor]]]


class Rules(NamedTuple):
    thresholds: Thresholds
    metrics: Sequence[Metric]
    # Rounds of a confirmation; None chooses by the noise. Zero leaves the confirmation out.
    confirm_rounds: int | None = None


class Check:
    """`open_sides` gives, for a stage, the side to check and, where it can be run, the baseline's side. `renew`
    makes anew what the processes of a side share."""

    def __init__(
        self,
        options: Options,
        rules: Rules,
        open_sides: OpenSides,
        listener: Listener,
        stored: Sequence[Record],
        renew: Renew,
    ) -> None:
        self._options, self._rules = options, rules
        self._open, self._listener, self._renew = open_sides, listener, renew
        self._stored = list(stored)
        self._interleaved = False

    def run(self, cases: Sequence[Case]) -> Report:
        pairs, only_a, only_b = self._measure(dict.fromkeys(cases, self._options), "first")
        able = [(a, b) for a, b in pairs if comparable(a, b)]
        refuse_nothing(able, self._rules.metrics)
        first = {b.case: self._test(a, b) for a, b in able}
        beyond = self._beyond_figures(first, pairs)
        suspects = self._suspects(first, beyond)
        again = self._measure_again(suspects, first, beyond) if suspects else []
        found = self._conclude(pairs, first, suspects, again)
        return Report(
            a="baseline",
            b="now",
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            cases=found,
            notes=shared_change(found)
            + ([] if self._interleaved else apart(pairs))
            + absences(able, self._rules.metrics)
            + self._rules.thresholds.idle(cases),
            only_a=only_a,
            only_b=only_b,
            environment=summary(pairs[0][1]) if pairs else {},
            level=LEVEL,
            runs={"b": ", ".join(dict.fromkeys(b.run for _, b in pairs))},
        )

    def _measure(
        self, cases: Mapping[Case, Options], stage: StageName, let_go: LetGo | None = None
    ) -> tuple[list[tuple[Record, Record]], list[str], list[str]]:
        sides = self._open(stage)
        self._interleaved = len(sides) > 1
        measured = measure_sides(cases, sides, self._listener, self._renew, let_go if self._interleaved else None)
        wanted = {case.key for case in cases}
        if self._interleaved:
            return match(measured[1], measured[0])
        pairs, _, only_b = match([r for r in self._stored if r.case.key in wanted], measured[0])
        return pairs, [r.case.key for r in self._stored if r.case.key not in wanted], only_b

    def _test(self, a: Record, b: Record, reach: float = RANK_TEST_P) -> list[Tested]:
        return test(a, b, self._rules.thresholds, self._rules.metrics, self._interleaved, reach)

    def _suspects(self, first: dict[Case, list[Tested]], beyond: Collection[Case]) -> dict[Case, list[Tested]]:
        """What the first measurement suspects, by case; the list is empty where it is a leak or a failure."""
        if self._rules.confirm_rounds == 0:
            return {}
        found: dict[Case, list[Tested]] = {}
        for case, tests in first.items():
            if named := self._suspected(tests):
                found[case] = named
        for case in beyond:
            found.setdefault(case, [])
        return found

    def _beyond_figures(
        self, first: dict[Case, list[Tested]], pairs: list[tuple[Record, Record]]
    ) -> dict[Case, int]:
        """The cases that fail or leak and did not before, with as many rounds as it takes to see it again."""
        found = {}
        for a, b in pairs:
            if newly_failing(a, b):
                found[b.case] = rounds_to_repeat_failure(len(failures_of(b)), len(b.rounds))
            elif (a.ok and not b.ok) or (b.case in first and leaks(a, b, self._rules.thresholds)):
                found[b.case] = self._options.rounds
        return found

    def _suspected(self, tests: Sequence[Tested]) -> list[Tested]:
        """The suspects of a case. A suspect brings its twin, which may know better in more rounds."""
        named = {one.metric.name for one in tests if self._is_suspect(one)}
        return [one for one in tests if {one.metric.name, one.metric.twin} & named]

    def _is_suspect(self, one: Tested) -> bool:
        """A figure that a side has but once (a cold preparation) would not be known better by more rounds."""
        if one.found is None or (one.found.method == "none" and self._options.rounds > 1):
            return False
        return is_suspect(one.a, one.b, one.found, one.limits.margin)

    def _measure_again(
        self, suspects: dict[Case, list[Tested]], first: dict[Case, list[Tested]], beyond: Mapping[Case, int]
    ) -> list[tuple[Record, Record]]:
        """The suspects in fresh processes, each as often as its noise asks for, or what it is suspected of beyond
        its figures; equals take turns as before."""
        named = [one for tests in suspects.values() for one in tests]
        family = len(named) if self._interleaved else sum(len(tests) for tests in first.values())
        cases: dict[Case, Options] = {}
        for case, tests in suspects.items():
            noises = [(process_noise(t.found), t.limits) for t in tests if t.found and self._is_suspect(t)]
            wanted = [
                rounds_to_confirm(noise, family, limits.margin, resolution=limits.resolution)
                for noise, limits in noises
            ]
            if case in beyond:
                wanted.append(beyond[case])
            rounds = self._rules.confirm_rounds or max(wanted)
            # As long a round as before, and parity is proved already.
            budget = self._options.round_budget * rounds
            cases[case] = msgspec.structs.replace(self._options, rounds=rounds, budget=budget, parity=False)
        return self._measure(cases, "confirmation", self._let_go(suspects, beyond))[0]

    def _let_go(self, suspects: dict[Case, list[Tested]], beyond: Collection[Case]) -> LetGo:
        """Whether nothing that a case is suspected of is worth more rounds. A leak or a failure has them all."""

        def decide(case: Case, rounds: Sequence[list[Round]]) -> bool:
            environments = [side.environment for side in self._open("confirmation")]
            now, before = (make_record(case, *each, "") for each in zip(rounds, environments, strict=True))
            found = {one.metric.name: one.found for one in self._test(before, now)}
            named = [found.get(one.metric.name) for one in suspects[case]]
            hopeless = all(one is not None and is_futile(one) for one in named)
            return case not in beyond and bool(named) and hopeless

        return decide

    def _conclude(
        self,
        pairs: list[tuple[Record, Record]],
        first: dict[Case, list[Tested]],
        suspects: dict[Case, list[Tested]],
        again: list[tuple[Record, Record]],
    ) -> list[CaseChange]:
        everything = [one for tests in first.values() for one in tests]
        ps = adjust(everything)
        changes = {case: [conclude(one, ps.get(id(one)), LEVEL) for one in tests] for case, tests in first.items()}
        self._replace_confirmed(changes, suspects, again, len(everything))
        found = [case_change(a, b, changes.get(b.case, []), self._rules.thresholds) for a, b in pairs]
        confirmed = {b.case.key: (a, b) for a, b in again}
        for one in found:
            if one.case in confirmed:
                a, b = confirmed[one.case]
                _fail_again(one, a, b)
                # A leak that new processes do not show again was none.
                one.leaks = leaks(a, b, self._rules.thresholds) if one.leaks else []
        return found

    def _replace_confirmed(
        self,
        changes: dict[Case, list[Change]],
        suspects: dict[Case, list[Tested]],
        again: list[tuple[Record, Record]],
        tests: int,
    ) -> None:
        """Where a metric was suspected, its change is the confirmation's, and the first one is only mentioned."""
        suspected: list[tuple[Case, int, Tested, Comparison]] = []
        for a, b in again:
            able = comparable(a, b)
            # A stored baseline of a few rounds must still be able to accuse among all that was tested.
            renewed = {one.metric.name: one for one in self._test(a, b, LEVEL / tests)} if able else {}
            positions = {change.metric: position for position, change in enumerate(changes.get(b.case, []))}
            for one in suspects[b.case]:
                new = renewed.get(one.metric.name)
                position = positions[one.metric.name]
                if new and new.found:
                    suspected.append((b.case, position, new, new.found))
                else:
                    _withdraw(
                        changes[b.case][position], "the new rounds do not have it" if able else "a side failed"
                    )
        found = [comparison for *_, comparison in suspected]
        family = None if self._interleaved else tests
        verdicts = confirm(found, [new.limits.margin for _, _, new, _ in suspected], family)
        ps = adjust_p_values([comparison.p_higher for comparison in found], family)
        for (case, position, new, comparison), verdict, p in zip(suspected, verdicts, ps, strict=True):
            stage = "confirmed" if verdict == "higher" else "not confirmed"
            change = conclude(new, p, LEVEL, verdict, stage)  # type: ignore[arg-type]
            before = changes[case][position]
            told = [f"first seen as {before.ratio - 1:+.1%}"] if before.ratio else []
            told += _blindness(new, comparison, len(ps)) if verdict == "undecided" else []
            change.note = ", ".join(told)
            changes[case][position] = change


def _fail_again(one: CaseChange, a: Record, b: Record) -> None:
    """What failed at first has failed if it does so again: a single process may have had bad luck."""
    again = failed_rounds(a, b)
    if not b.ok and b.failure:
        one.state, one.reason = "broken", f"{b.failure.cause}: {b.failure.message}"
        one.newly_failing = False
    elif one.state == "broken":
        one.newly_failing = newly_failing(a, b)
        first = one.reason
        one.state, one.reason = "compared", f"failed at first ({first}), then {again}"
        if not again:
            one.reason = f"failed once and not again ({first})"
    elif again:
        one.newly_failing &= newly_failing(a, b)
        one.reason = f"{one.reason}, then {again}" if one.reason else again
    elif one.newly_failing:
        one.newly_failing = False
        one.reason += f", and none of {len(b.rounds)} again"


def _withdraw(change: Change, why: str) -> None:
    """Nobody is accused of what could not be measured again."""
    if change.worse:
        change.verdict, change.worse, change.regression, change.stage = "undecided", False, False, "not confirmed"
    change.note = f"suspected, and not compared again: {why}"


def _blindness(tested: Tested, found: Comparison, tests: int) -> list[str]:
    """What so many rounds see at this noise, where that is more than the threshold."""
    sees = detectable_change(process_noise(found), found.rounds_b, LEVEL / tests, tested.limits.margin)
    if sees <= tested.limits.threshold:
        return []
    return [f"{found.rounds_b} rounds see {sees:+.1%} at this noise" if sees < 9 else "too noisy to see anything"]
