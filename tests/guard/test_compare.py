"""Comparing sets of records: verdicts, regressions, what is not compared and why."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from builders import make_case, make_failure, make_record, make_round

from tare.errors import BadInput
from tare.guard.changes import MetricChange, Report
from tare.guard.compare import Rules, compare_selections
from tare.guard.metrics import METRICS, Metric, get_metric
from tare.guard.thresholds import Thresholds, make_thresholds
from tare.records.record import Parity, Record
from tare.store.selection import Selection

STEADY = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 1.002, 0.998, 1.001, 0.999)


def timed(factor: float, noise: tuple[float, ...] = STEADY, **overrides: Any) -> Record:
    return make_record(steps_s=[1e-3 * factor * n for n in noise], **overrides)


def counted(**counts: int) -> Record:
    return make_record(rounds=[make_round(i, counts=counts) for i in range(3)])


def compared(
    a: Record,
    b: Record,
    thresholds: Thresholds | None = None,
    metrics: Sequence[Metric] = METRICS,
    **options: Any,
) -> Report:
    sides = [Selection(name, [record], frozenset()) for name, record in (("a", a), ("b", b))]
    return compare_selections(sides[0], sides[1], Rules(thresholds or Thresholds(), metrics), **options)


def change(report: Report, metric: str = "gross") -> MetricChange:
    return next(c for c in report.cases[0].changes if c.metric == metric)


@pytest.mark.parametrize(
    ("factor", "verdict", "regression"),
    [(1.0, "same", False), (1.05, "slower", False), (1.1, "slower", True), (0.9, "faster", False)],
)
def test_times_are_faster_slower_or_the_same(factor: float, verdict: str, regression: bool) -> None:
    report = compared(timed(1.0), timed(factor))
    found = change(report)
    assert (found.verdict, found.regression) == (verdict, regression)
    assert found.ratio == pytest.approx(factor, rel=0.005)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= factor <= found.high
    assert report.exit_code == int(regression)


def test_a_noisy_comparison_is_undecided_and_says_what_would_decide_it() -> None:
    wild = (1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.08, 0.92, 1.03, 0.97)
    found = change(compared(timed(1.0, wild), timed(1.08, wild[::-1])))
    assert found.verdict == "undecided"
    assert found.more_rounds is not None
    assert found.more_rounds > 5
    assert not found.regression
    # The same wild noise alone gives half as large a change: that foretells nothing.
    assert change(compared(timed(1.0, wild), timed(1.04, wild[::-1]))).more_rounds is None


def test_a_change_that_is_real_and_may_be_as_large_as_the_threshold_is_a_regression() -> None:
    shaky = (1.0, 1.03, 0.97, 1.02, 0.98, 1.0, 1.01, 0.99, 1.015, 0.985)
    found = change(compared(timed(1.0, shaky), timed(1.06, shaky[::-1])))
    assert found.ratio is not None
    assert found.ratio < 1.07
    assert found.high is not None
    assert found.high > 1.07
    assert (found.verdict, found.regression) == ("slower", True)


def test_counts_are_compared_exactly() -> None:
    before = counted(kernels=100, operators=50, synchronisations=0)
    report = compared(before, counted(kernels=101, operators=49, synchronisations=1))
    verdicts = {c.metric: (c.verdict, c.regression) for c in report.cases[0].changes if c.exact}
    assert verdicts == {
        "kernels": ("more", True),
        "operators": ("less", False),
        "synchronisations": ("more", True),
    }
    assert change(report, "synchronisations").ratio is None
    assert report.exit_code == 1


def test_a_count_may_grow_by_its_threshold() -> None:
    allowed = make_thresholds({"metric": {"kernels": {"threshold": 0.05}}}, "here")
    assert compared(counted(kernels=100), counted(kernels=104), allowed).exit_code == 0
    assert compared(counted(kernels=100), counted(kernels=106), allowed).exit_code == 1


def wavering(*counts: int) -> Record:
    return make_record(rounds=[make_round(i, counts={"synchronisations": n}) for i, n in enumerate(counts)])


def test_a_count_that_rises_from_nothing_is_certain_although_it_wavers() -> None:
    report = compared(wavering(0, 0, 0, 0), wavering(4, 4, 4, 3))
    found = change(report, "synchronisations")
    assert (found.verdict, found.regression, found.exact, found.a, found.b) == ("more", True, True, 0, 4)
    assert found.note == "3 to 4 in its rounds"
    assert report.exit_code == 1
    back = change(compared(wavering(4, 4, 4, 3), wavering(0, 0, 0, 0)), "synchronisations")
    assert (back.verdict, back.regression) == ("less", False)


def test_a_count_that_is_sometimes_zero_says_why_it_is_undecided() -> None:
    found = change(compared(wavering(0, 1, 0, 0), wavering(4, 4, 4, 3)), "synchronisations")
    assert (found.verdict, found.regression) == ("undecided", False)
    assert "zero in some rounds" in found.note


def test_a_count_that_wavers_is_no_exact_figure() -> None:
    wavering = make_record(rounds=[make_round(i, counts={"kernels": 100 + i}) for i in range(3)])
    found = change(compared(wavering, wavering), "kernels")
    assert not found.exact
    assert found.verdict != "more"


def test_a_case_that_breaks_is_a_regression_and_one_that_is_mended_is_none() -> None:
    broken = make_record(rounds=[make_round(failure=make_failure())], failure=make_failure())
    report = compared(timed(1.0), broken)
    assert (report.cases[0].state, report.exit_code) == ("broken", 1)
    assert "it broke" in report.cases[0].reason
    assert compared(broken, timed(1.0)).cases[0].state == "fixed"
    both = compared(broken, broken)
    assert (both.cases[0].state, both.exit_code) == ("failed", 0)


def test_rounds_that_failed_beside_good_ones_are_told() -> None:
    flaky = timed(1.0)
    crash = make_failure(cause="signal", message="ended by SIGSEGV")
    rounds = [make_round(done.index, failure=crash) if done.index % 2 else done for done in flaky.rounds]
    report = compared(timed(1.0), make_record(rounds=rounds))
    assert report.cases[0].reason == "5 of 10 rounds failed now (signal: ended by SIGSEGV)"
    assert change(report).rounds_b == 5
    assert compared(timed(1.0), timed(1.0)).cases[0].reason == ""


def test_what_computes_something_else_is_never_faster() -> None:
    wrong = timed(0.5, parity=Parity(status="different", error=1.0, tolerance=0.1, worst="output/0"))
    report = compared(timed(1.0), wrong)
    assert (report.cases[0].state, report.exit_code) == ("different", 1)
    assert report.cases[0].changes == []
    # If it was wrong before as well, it is compared with its equal.
    assert compared(wrong, wrong).cases[0].state == "compared"


def test_other_machines_are_refused_and_forced_with_the_difference_said() -> None:
    import msgspec
    from builders import ENVIRONMENT

    elsewhere = timed(1.0, environment=msgspec.structs.replace(ENVIRONMENT, machine={"cpu": "another"}))
    with pytest.raises(BadInput, match=r"machine\.cores: 2 against absent"):
        compared(timed(1.0), elsewhere)
    forced = compared(timed(1.0), elsewhere, force=True)
    assert any("machine.cpu: test-cpu against another" in line for line in forced.forced)


def test_cases_of_one_side_only_are_listed() -> None:
    a = Selection("a", [timed(1.0), timed(1.0, case=make_case(batch=1))], frozenset())
    b = Selection("b", [timed(1.0), timed(1.0, case=make_case(batch=2))], frozenset())
    report = compare_selections(a, b, Rules(Thresholds(), METRICS))
    assert [case.case for case in report.cases] == [make_case().key]
    assert report.only_a == [make_case(batch=1).key]
    assert report.only_b == [make_case(batch=2).key]


def test_a_metric_that_nobody_has_compares_nothing_and_does_not_pass() -> None:
    with pytest.raises(BadInput, match=r"no case has energy on both sides.*they have gross, latency, preparation"):
        compared(timed(1.0), timed(1.5), metrics=[get_metric("energy")])
    report = compared(timed(1.0), timed(1.0), metrics=[get_metric("energy"), get_metric("gross")])
    assert "not compared, for no record has it: energy" in report.notes


def test_a_metric_of_one_side_only_is_told() -> None:
    report = compared(counted(kernels=3), counted(operators=4))
    assert "not compared, for only the records of before have it: kernels (1 case)" in report.notes
    assert "not compared, for only the records of now have it: operators (1 case)" in report.notes
    assert not any("not compared" in note for note in compared(timed(1.0), timed(1.0)).notes)


def test_ignored_metrics_are_not_there() -> None:
    quiet = make_thresholds({"metric": {"gross": {"ignore": True}}}, "here")
    assert {c.metric for c in compared(timed(1.0), timed(2.0), quiet).cases[0].changes} == {
        "latency",
        "preparation",
    }


def test_many_cases_ask_for_more_evidence() -> None:
    """One case in forty with a p of about 0.02: alone it is slower, among forty it is not proved."""
    gross = [get_metric("gross")]
    base, shifted = (1.0, 1.02, 0.98), (1.08, 1.1, 1.06)
    cases = [make_case(batch=n) for n in range(1, 41)]
    a = [timed(1.0, base, case=case) for case in cases]
    b = [timed(1.0, shifted if case.batch == 1 else base[::-1], case=case) for case in cases]
    rules = Rules(Thresholds(), gross)
    alone = compare_selections(Selection("a", a[:1], frozenset()), Selection("b", b[:1], frozenset()), rules)
    among = compare_selections(Selection("a", a, frozenset()), Selection("b", b, frozenset()), rules)
    assert alone.cases[0].changes[0].verdict == "slower"
    assert among.cases[0].changes[0].verdict == "undecided"
    assert among.cases[0].changes[0].p == alone.cases[0].changes[0].p


@pytest.mark.parametrize("rounds", [4, 5, 6, 7])
def test_one_slow_case_among_many_is_found_with_a_few_rounds(rounds: int) -> None:
    """Six against six values are enough for a rank test, which then could not stand out among 240 tests."""
    chance = random.Random(1)

    def night(factor: float) -> list[Record]:
        steps = {
            n: [1e-3 * chance.lognormvariate(0, 0.01) * (factor if n == 1 else 1) for _ in range(rounds)]
            for n in range(1, 61)
        }
        return [make_record(make_case(batch=n), each) for n, each in steps.items()]

    sides = [Selection(name, night(factor), frozenset()) for name, factor in (("a", 1.0), ("b", 2.0))]
    report = compare_selections(sides[0], sides[1], Rules(Thresholds(), METRICS))
    assert [case.case for case in report.bad] == [make_case(batch=1).key]


def test_a_change_that_all_cases_share_is_remarked_on() -> None:
    cases = [make_case(batch=n) for n in range(1, 13)]
    a = Selection("a", [timed(1.0, case=case) for case in cases], frozenset())
    b = Selection("b", [timed(1.04, case=case) for case in cases], frozenset())
    assert any("together" in note for note in compare_selections(a, b, Rules(Thresholds(), METRICS)).notes)
    assert not any("together" in note for note in compare_selections(a, a, Rules(Thresholds(), METRICS)).notes)


def test_a_threshold_for_no_case_is_remarked_on() -> None:
    cases = [{"match": match, "threshold": 0.1} for match in ("mlp", "mpl*")]
    thresholds = make_thresholds({"case": cases}, "here")
    noted = compared(timed(1.0), timed(1.0), thresholds).notes
    assert [note for note in noted if "matches" in note] == ["no case matches 'mpl*' of the thresholds"]


def two_modes(chance: random.Random, rounds: int, gap: float = 0.05) -> list[float]:
    """Rounds of a machine with two equally frequent modes."""
    return [1e-3 * (1 + gap * chance.randint(0, 1)) * chance.lognormvariate(0, 0.002) for _ in range(rounds)]


@pytest.mark.parametrize("suites", [12, pytest.param(60, marks=pytest.mark.full)])
def test_three_rounds_of_a_machine_with_two_modes_accuse_nobody(suites: int) -> None:
    """Three rounds in one mode against three in the other look like a change of 5 % without any noise. By the case
    alone, 49 of 60 pairs of such suites had false discoveries."""
    discoveries = 0
    for seed in range(suites):
        chance = random.Random(seed)
        cases = [make_case(batch=n) for n in range(1, 31)]
        sides = [
            Selection(name, [make_record(case, two_modes(chance, 3)) for case in cases], frozenset())
            for name in ("a", "b")
        ]
        report = compare_selections(sides[0], sides[1], Rules(Thresholds(), [get_metric("gross")]))
        discoveries += any(c.verdict in ("slower", "faster") for case in report.cases for c in case.changes)
        assert any("too few rounds" in note for note in report.notes)
    assert discoveries <= max(1, 0.05 * suites)


def test_a_true_change_stands_out_from_the_noise_of_its_suite() -> None:
    chance = random.Random(3)
    cases = [make_case(batch=n) for n in range(1, 31)]
    a, b = ([make_record(case, two_modes(chance, 3)) for case in cases] for _ in range(2))
    b[0] = make_record(cases[0], [1.3 * value for value in two_modes(chance, 3)])
    sides = [Selection(name, side, frozenset()) for name, side in (("a", a), ("b", b))]
    report = compare_selections(sides[0], sides[1], Rules(Thresholds(), [get_metric("gross")]))
    assert [case.case for case in report.bad] == [cases[0].key]


def test_few_rounds_say_what_they_assume_and_many_assume_nothing() -> None:
    (note,) = [note for note in compared(timed(1.0, STEADY[:3]), timed(1.1, STEADY[:3])).notes if "assum" in note]
    assert "held to 5.0% there only if the noise between processes has one mode" in note
    assert not any("assum" in note for note in compared(timed(1.0), timed(1.1)).notes)
