"""A regression check: measure, suspect, measure the suspects again in fresh processes, and only then report."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import Executor
from tare.execute.runner import Listener, Target, make_record
from tare.guard.changes import CaseChange, MetricChange, Report, Stage
from tare.guard.compare import (
    Changes,
    Matched,
    MetricTest,
    RecordPair,
    Rules,
    Tests,
    case_change,
    failed_rounds_text,
    failure_text,
    few_rounds_note,
    is_comparable,
    is_newly_failing,
    judge_tests,
    make_report,
    match_cases,
    metric_change,
    round_failures,
    run_tests,
    usable_pairs,
)
from tare.guard.interleave import (
    InterimAnalyses,
    IsOver,
    RestartServers,
    measure_interleaved,
    rounds_so_far,
)
from tare.guard.leak import leaks
from tare.records.record import Record, Round
from tare.stats.comparison import RANK_TEST_P, Comparison, adjust_p_values
from tare.stats.power import detectable_change, process_noise
from tare.stats.two_stage import (
    LEVEL,
    OVERWHELMING_ROUNDS,
    confirm,
    early_rounds,
    interim_rounds,
    is_decided,
    is_overwhelming,
    is_suspect,
    max_rounds_to_confirm,
    rounds_to_confirm,
    rounds_to_repeat_failure,
    spend,
)

# With so few cases, restarting the servers takes longer than a round of all of them.
FEW_CASES = 4
CheckStage = Literal["first", "confirmation"]
# Gives, for a stage, the version to check and, if it can be run, the baseline's version.
OpenVersions = Callable[[CheckStage], Sequence[Target[Executor]]]


class RegressionCheck:
    def __init__(
        self,
        options: Options,
        rules: Rules,
        open_versions: OpenVersions,
        listener: Listener,
        stored: Sequence[Record],
        restart_servers: RestartServers,
        is_over: IsOver = lambda: False,
    ) -> None:
        self._options, self._rules, self._is_over = options, rules, is_over
        # What was not measured as planned because the time was over.
        self._unfinished: dict[str, str] = {}
        self._open_versions, self._listener, self._restart_servers = open_versions, listener, restart_servers
        self._stored = list(stored)
        self._interleaved = False
        # Of the confirmation.
        self._planned_rounds: dict[Case, int] = {}

    def run(self, cases: Sequence[Case]) -> Report:
        matched = self._measure(dict.fromkeys(cases, self._options), "first", self._first_look(cases))
        pairs = matched.pairs
        tests = {b.case: self._test(a, b) for a, b in usable_pairs(pairs, self._rules)}
        changes = judge_tests(tests, LEVEL)
        confirmed: dict[str, RecordPair] = {}
        if self._rules.confirm_rounds != 0:
            failing = self._failing_or_leaking(tests, pairs)
            suspects = {case: self._suspected(tests.get(case, [])) for case in (*tests, *failing)}
            suspects = {case: suspects[case] for case in suspects if suspects[case] or case in failing}
            if suspects:
                confirmations = self._confirm(suspects, tests, failing)
                self._replace_suspects(changes, suspects, confirmations, sum(map(len, tests.values())))
                confirmed = {b.case.family: (a, b) for a, b in confirmations}
                for case in suspects.keys() - {b.case for _, b in confirmations}:
                    for test in suspects[case]:
                        _withdraw(changes[case][test.metric.name], "out of time")
        results = [case_change(a, b, changes, self._rules.thresholds) for a, b in pairs]
        for result in results:
            if result.case in confirmed:
                a, b = confirmed[result.case]
                _update_failure(result, a, b)
                # A leak must show again in new processes.
                result.leaks = leaks(a, b, self._rules.thresholds) if result.leaks else []
        return make_report(
            matched,
            results,
            self._rules,
            side_by_side=self._interleaved,
            assumptions=few_rounds_note(_accused(changes), LEVEL),
            a="baseline",
            b="now",
            level=LEVEL,
            runs={"b": ", ".join(dict.fromkeys(b.run for _, b in pairs))},
            unfinished=self._unfinished,
        )

    def _first_look(self, cases: Sequence[Case]) -> InterimAnalyses | None:
        """Ends the first measurement of a case whose change is overwhelming: it is a suspect already."""
        if self._rules.confirm_rounds == 0 or self._options.rounds <= OVERWHELMING_ROUNDS:
            return None

        def overwhelming(case: Case, rounds: Sequence[list[Round]]) -> bool:
            if any(round_.failure for of_version in rounds for round_ in of_version):
                # It fails now and then: all rounds are needed to see how often.
                return False
            tests = [test for pair in self._pairs_so_far(case, rounds, "first") for test in self._test(*pair)]
            return any(t.comparison and is_overwhelming(t.a, t.b, t.comparison, t.limits.margin) for t in tests)

        return InterimAnalyses(dict.fromkeys(cases, (OVERWHELMING_ROUNDS,)), overwhelming, balanced=True)

    def _pairs_so_far(self, case: Case, rounds: Sequence[list[Round]], stage: CheckStage) -> list[RecordPair]:
        """Before and now; none if no baseline of the case is stored. A stored one has all its rounds already."""
        environments = [version.environment for version in self._open_versions(stage)]
        now, *before = (make_record(case, *each, "") for each in zip(rounds, environments, strict=True))
        return match_cases(before if self._interleaved else self._stored, [now]).pairs

    def _measure(
        self, cases: Mapping[Case, Options], stage: CheckStage, interim: InterimAnalyses | None = None
    ) -> Matched:
        versions = self._open_versions(stage)
        self._interleaved = len(versions) > 1
        # No alarm depends on the first measurement. With many cases a restart costs little, and is worth it.
        shared = OVERWHELMING_ROUNDS if interim and stage == "first" and len(cases) <= FEW_CASES else 1
        records = measure_interleaved(
            cases, versions, self._listener, self._restart_servers, interim, shared, self._is_over
        )
        for case in cases:
            if any(version.journal.record(version.own_case(case)) is None for version in versions):
                done = min(len(rounds_so_far(case, version)) for version in versions)
                measured = f"{done} of {cases[case].rounds} rounds"
                self._unfinished[case.family] = f"{measured} of its confirmation" if stage != "first" else measured
        if self._interleaved:
            return match_cases(records[1], records[0])
        wanted = {case.family for case in cases}
        matched = match_cases([r for r in self._stored if r.case.family in wanted], records[0])
        return matched._replace(only_a=[r.case.key for r in self._stored if r.case.family not in wanted])

    def _test(self, a: Record, b: Record, required_p: float = RANK_TEST_P) -> list[MetricTest]:
        return run_tests(a, b, self._rules, self._interleaved, required_p)

    def _failing_or_leaking(self, tests: Tests, pairs: Sequence[RecordPair]) -> dict[Case, int]:
        """The cases that fail or leak and did not before, with the number of rounds to see it again."""
        rounds = {}
        for a, b in pairs:
            if is_newly_failing(a, b):
                rounds[b.case] = rounds_to_repeat_failure(len(round_failures(b)), len(b.rounds))
            elif (a.ok and not b.ok) or (b.case in tests and leaks(a, b, self._rules.thresholds)):
                rounds[b.case] = self._options.rounds
        return rounds

    def _suspected(self, tests: Sequence[MetricTest]) -> list[MetricTest]:
        """The suspects of a case. The related metric of a suspect is measured again with it: it may be the one
        that more rounds decide."""
        suspected = {test.metric.name for test in tests if self._is_suspect(test)}
        return [test for test in tests if {test.metric.name, test.metric.related} & suspected]

    def _is_suspect(self, test: MetricTest) -> bool:
        # More rounds do not help a figure that each side has only once (a cold preparation).
        if test.comparison is None or (test.comparison.method == "none" and self._options.rounds > 1):
            return False
        return is_suspect(test.a, test.b, test.comparison, test.limits.margin)

    def _confirm(self, suspects: Tests, tests: Tests, failing: Mapping[Case, int]) -> list[RecordPair]:
        """Measures the suspects again in fresh processes, each in as many rounds as its metric or failure
        needs."""
        tested = sum(map(len, tests.values()))
        count = self._tests_of_confirmation(suspects, tested)
        cases: dict[Case, Options] = {}
        for case, suspected in suspects.items():
            wanted = [
                self._rounds_to_confirm(test, test.comparison, count)
                for test in suspected
                if test.comparison and self._is_suspect(test)
            ]
            if case in failing:
                wanted.append(failing[case])
            rounds = self._rules.confirm_rounds or max(wanted)
            # A round lasts as long as before. Parity has been checked already.
            budget = self._options.round_budget * rounds
            cases[case] = msgspec.structs.replace(self._options, rounds=rounds, budget=budget, parity=False)

        def decided(case: Case, rounds: Sequence[list[Round]]) -> bool:
            """Whether no suspected metric is worth more rounds. A leak or a failure gets all of them."""
            ((a, b),) = self._pairs_so_far(case, rounds, "confirmation")
            now = {test.metric.name: test for test in self._test(a, b, LEVEL / tested)}
            named = [now.get(test.metric.name) for test in suspects[case]]
            comparisons = [test.comparison for test in named if test and test.comparison]
            margins = [test.limits.margin for test in suspects[case]]
            if case in failing or len(comparisons) < len(margins):
                return False
            return is_decided(comparisons, margins, count)

        self._planned_rounds = {case: options.rounds for case, options in cases.items()}
        looks = {
            case: interim_rounds(len(suspects[case]), count, options.rounds) if suspects[case] else []
            for case, options in cases.items()
        }
        return self._measure(cases, "confirmation", InterimAnalyses(looks, decided)).pairs

    def _tests_of_confirmation(self, suspects: Tests, tested: int) -> int:
        """How many tests share the level: with a stored baseline all, because the first ones used the same
        data."""
        return sum(map(len, suspects.values())) if self._interleaved else tested

    def _rounds_to_confirm(self, test: MetricTest, comparison: Comparison, suspects: int) -> int:
        """Side by side, all rounds that are worth it: interim analyses end most confirmations much earlier."""
        limits = test.limits
        if self._interleaved:
            return max_rounds_to_confirm(limits.margin, limits.resolution)
        return rounds_to_confirm(process_noise(comparison), suspects, limits.margin, limits.resolution)

    def _replace_suspects(
        self, changes: Changes, suspects: Tests, confirmations: Sequence[RecordPair], tests: int
    ) -> None:
        """Replaces the change of each suspected metric by the confirmation's, with a note of the first one."""
        confirmed: list[tuple[MetricTest, Comparison]] = []
        count = self._tests_of_confirmation(suspects, tests)
        for a, b in confirmations:
            # Only a long confirmation may have ended early, for being certain.
            metrics = len(suspects[b.case])
            looked = metrics and self._planned_rounds[b.case] > early_rounds(metrics, count)[0]
            usable = is_comparable(a, b)
            # Even a stored baseline of few rounds must be able to reach significance among all tests.
            new_tests = {test.metric.name: test for test in self._test(a, b, LEVEL / tests)} if usable else {}
            for name in (suspect.metric.name for suspect in suspects[b.case]):
                test = new_tests.get(name)
                if test and test.comparison:
                    spent = spend(test.comparison, metrics, count) if looked else test.comparison
                    confirmed.append((test._replace(comparison=spent), spent))
                else:
                    reason = "the new rounds do not have it" if usable else "a side failed"
                    _withdraw(changes[b.case][name], reason)
        comparisons = [comparison for _, comparison in confirmed]
        family = None if self._interleaved else tests
        verdicts = confirm(comparisons, [test.limits.margin for test, _ in confirmed], family)
        p_values = adjust_p_values([comparison.p_higher for comparison in comparisons], family)
        for (test, comparison), verdict, p in zip(confirmed, verdicts, p_values, strict=True):
            stage: Stage = "confirmed" if verdict == "higher" else "not confirmed"
            change = metric_change(test, p, LEVEL, verdict, stage)
            first = changes[test.case][test.metric.name].ratio
            notes = [f"first seen as {first - 1:+.1%}"] if first else []
            notes += _resolution_note(test, comparison, len(p_values)) if verdict == "undecided" else []
            change.note = ", ".join(notes)
            changes[test.case][test.metric.name] = change


def _update_failure(result: CaseChange, a: Record, b: Record) -> None:
    """A failure counts if it occurs again in the confirmation: a single process may fail by chance."""
    again = failed_rounds_text(a, b)
    if b.failure:
        result.state, result.reason, result.newly_failing = "broken", failure_text(b.failure), False
    elif result.state == "broken":
        result.state, result.newly_failing = "compared", is_newly_failing(a, b)
        first = result.reason
        result.reason = (
            f"failed at first ({first}), then {again}" if again else f"failed once and not again ({first})"
        )
    elif again:
        result.newly_failing &= is_newly_failing(a, b)
        result.reason = f"{result.reason}, then {again}" if result.reason else again
    elif result.newly_failing:
        result.newly_failing = False
        result.reason += f", and none of {len(b.rounds)} again"


def _accused(changes: Changes) -> Changes:
    return {case: {name: c for name, c in of_case.items() if c.worse} for case, of_case in changes.items()}


def _withdraw(change: MetricChange, reason: str) -> None:
    """A suspect that could not be measured again is no regression."""
    if change.worse:
        change.verdict, change.worse, change.regression, change.stage = "undecided", False, False, "not confirmed"
    change.note = f"suspected, and not compared again: {reason}"


def _resolution_note(test: MetricTest, comparison: Comparison, tests: int) -> list[str]:
    """The change that so many rounds detect at this noise, where that is more than the threshold."""
    noise, rounds = process_noise(comparison), comparison.rounds_b
    change = detectable_change(noise, rounds, LEVEL / tests, test.limits.margin)
    if change <= test.limits.threshold:
        return []
    return [
        f"{rounds} rounds detect {change:+.1%} at this noise" if change < 9 else "too noisy to detect anything"
    ]
