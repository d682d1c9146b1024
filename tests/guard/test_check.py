"""A check on executors that measure nothing: who is suspected, what is measured again, what is reported."""

import random
from pathlib import Path

import pytest
from builders import make_case, make_record, make_round, make_series
from checking import CASES, ROUNDS, Setting, Simulated, flat, gross, of, slow_first

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput
from tare.records.record import Round
from tare.stats.two_stage import MAX_CONFIRM, OVERWHELMING_ROUNDS


def test_two_equal_versions_raise_nothing(tmp_path: Path) -> None:
    report = Setting(tmp_path, flat, flat).run()
    assert report.exit_code == 0
    assert len(report.cases) == len(CASES)
    assert not any(c.worse for case in report.cases for c in case.changes)


def test_a_slower_case_is_suspected_measured_again_and_named(tmp_path: Path) -> None:
    setting = Setting(tmp_path, slow_first, flat)
    report = setting.run()
    assert report.exit_code == 1
    assert [case.case for case in report.bad] == [CASES[0].key]
    found = gross(report, CASES[0])
    assert (found.verdict, found.stage, found.regression) == ("slower", "confirmed", True)
    assert found.low <= 1.1 <= found.high
    assert found.rounds_b > 6
    assert found.paired
    assert "confirmation" in setting.stages
    # Only suspects are measured again, and there are few of them.
    assert len(setting.order) < 2 * 6 * len(CASES) + 2 * 30 * 3


def test_a_suspicion_that_fresh_processes_do_not_share_is_dropped(tmp_path: Path) -> None:
    """The first case is slow only while it is measured for the first time."""
    setting = Setting(tmp_path, lambda case, taken: 1.2e-3 if case.batch == 1 and taken < 40 else 1e-3, flat)
    report = setting.run()
    assert report.exit_code == 0
    found = gross(report, CASES[0])
    assert found.stage == "not confirmed"
    assert "first seen as +" in found.note


def test_nobody_is_accused_of_what_cannot_be_measured_again(tmp_path: Path) -> None:
    """The baseline fails when the suspect is confirmed: the first rounds alone accuse nobody."""
    # Of the suspect, three rounds were enough.
    first = ROUNDS * (len(CASES) - 1) + OVERWHELMING_ROUNDS
    report = Setting(tmp_path, slow_first, lambda _, taken: 1e-3 if taken < first else 0.0).run()
    found = gross(report, CASES[0])
    assert (found.verdict, found.worse, found.regression) == ("undecided", False, False)
    assert found.note == "suspected, and not compared again: a side failed"
    assert report.exit_code == 0


class Shared(Simulated):
    """Three blocks of a round are quiet. The others take half as long again on the new side at first, where three
    rounds are enough, and later whatever the neighbours like, on both."""

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:
        first = self._taken < OVERWHELMING_ROUNDS * len(CASES)
        done = super().run_round(case, index, options, check)
        quiet = done.series[1].wall_ns[0]
        louder = (1.5 if self._name == "now" else 1.0) if first else self._drawn.uniform(1, 2)
        blocks = [quiet] * 3 + [round(quiet * louder)] * 27
        series = make_series("pipelined", 1.0, blocks=30, steps=4, wall_ns=blocks)
        return make_round(index, series=[series], host_memory=done.host_memory)


def test_a_suspect_brings_its_twin(tmp_path: Path) -> None:
    """Only gross is suspected, and noise. The quietest moments, measured again with it, know better."""

    def later_slower(case: Case, taken: int) -> float:
        return 1.08e-3 if case.batch == 1 and taken >= OVERWHELMING_ROUNDS * len(CASES) else 1e-3

    setting = Setting(tmp_path, later_slower, flat, confirm_rounds=12)
    setting.use(Shared)
    report = setting.run()
    assert gross(report, CASES[0]).stage == "not confirmed"
    found = of(report, CASES[0], "gross_p5")
    assert found.stage == "confirmed"
    assert 1.05 < found.ratio < 1.11
    assert [case.case for case in report.bad] == [CASES[0].key]


def test_the_sides_take_turns_in_an_order_that_is_drawn(tmp_path: Path) -> None:
    setting = Setting(tmp_path, flat, flat)
    setting.run()
    first = setting.order[: 12 * len(CASES)]
    pairs = [tuple(first[i : i + 2]) for i in range(0, len(first), 2)]
    assert {tuple(sorted(pair)) for pair in pairs} == {("before", "now")}
    assert 0.2 < sum(pair[0] == "now" for pair in pairs) / len(pairs) < 0.8


def test_a_stored_baseline_is_compared_without_being_run(tmp_path: Path) -> None:
    drawn = random.Random(5)
    stored = [
        make_record(case, [1e-3 * drawn.lognormvariate(0, 0.01) for _ in range(20)], id=f"r{i}")
        for i, case in enumerate(CASES)
    ]
    setting = Setting(tmp_path, slow_first, None)
    report = setting.run(stored)
    assert [case.case for case in report.bad] == [CASES[0].key]
    found = gross(report, CASES[0])
    assert (found.stage, found.paired, found.rounds_a) == ("confirmed", False, 20)
    assert any("side by side" in note for note in report.notes)
    assert set(setting.order) == {"now"}


def test_a_large_change_against_a_stored_baseline_takes_few_rounds(tmp_path: Path) -> None:
    """Ten times the noise: three rounds of the first measurement and one early look at the confirmation."""
    drawn = random.Random(5)
    stored = [make_record(CASES[0], [1e-3 * drawn.lognormvariate(0, 0.02) for _ in range(20)])]
    setting = Setting(tmp_path, lambda *_: 1.2e-3 * drawn.lognormvariate(0, 0.02), None)
    report = setting.run(stored, cases=[CASES[0]])
    found = gross(report, CASES[0])
    assert (found.verdict, found.stage) == ("slower", "confirmed")
    assert len(setting.order) == OVERWHELMING_ROUNDS + found.rounds_b <= 18


def test_noise_against_a_stored_baseline_is_dropped_early(tmp_path: Path) -> None:
    """Slower only at first, as a neighbour makes it: suspected, and most of the confirmation is spared."""
    drawn = random.Random(5)
    stored = [make_record(CASES[0], [1e-3 * drawn.lognormvariate(0, 0.05) for _ in range(20)])]

    def step_s(_: Case, taken: int) -> float:
        return (1.1e-3 if taken < ROUNDS else 1e-3) * drawn.lognormvariate(0, 0.05)

    report = Setting(tmp_path, step_s, None).run(stored, cases=[CASES[0]])
    found = gross(report, CASES[0])
    assert found.stage == "not confirmed"
    assert not report.bad
    assert found.rounds_b < MAX_CONFIRM


def test_a_threshold_for_no_case_is_remarked_on(tmp_path: Path) -> None:
    setting = Setting(tmp_path, flat, flat, confirm_rounds=0)
    setting.limit({"case": [{"match": "mlp/eager", "threshold": 0.1}, {"match": "mpl*", "threshold": 0.03}]})
    assert [note for note in setting.run().notes if "matches" in note] == [
        "no case matches 'mpl*' of the thresholds"
    ]


def test_a_check_that_compares_nothing_does_not_pass(tmp_path: Path) -> None:
    setting = Setting(tmp_path, flat, flat)
    setting.only("energy")
    with pytest.raises(BadInput, match="no case has energy on both sides"):
        setting.run()


def test_a_stored_baseline_of_few_rounds_can_accuse_among_many_cases(tmp_path: Path) -> None:
    """Four values beside twenty are enough for a rank test, which then could not stand out among 300 tests."""
    many = [make_case(batch=n) for n in range(1, 101)]
    drawn = random.Random(5)
    stored = [make_record(case, [1e-3 * drawn.lognormvariate(0, 0.01) for _ in range(4)]) for case in many]
    setting = Setting(tmp_path, lambda case, _: 1.5e-3 if case.batch == 1 else 1e-3, None)
    report = setting.run(stored, cases=many)
    assert [case.case for case in report.bad] == [many[0].key]
    assert gross(report, many[0]).stage == "confirmed"


def test_a_case_without_a_baseline_is_listed(tmp_path: Path) -> None:
    report = Setting(tmp_path, flat, None).run([make_record(CASES[0])])
    assert report.only_b == [case.key for case in CASES[1:]]


@pytest.mark.parametrize(("rounds", "stages"), [(0, {"first"}), (10, {"first", "confirmation"})])
def test_the_user_may_fix_the_confirmation(tmp_path: Path, rounds: int, stages: set[str]) -> None:
    setting = Setting(tmp_path, lambda case, _: 1.3e-3 if case.batch == 1 else 1e-3, flat, confirm_rounds=rounds)
    report = setting.run()
    assert set(setting.stages) == stages
    assert [case.case for case in report.bad] == [CASES[0].key]
    # Six rounds alone accuse only under an assumption, and say so.
    assert any("one mode" in note for note in report.notes) == (rounds == 0)
    assert gross(report, CASES[0]).rounds_b == (rounds or 6)


def test_a_figure_that_only_one_round_has_is_not_measured_again_in_vain(tmp_path: Path) -> None:
    """A cold preparation is there once a side, and another thirty rounds would not change that."""

    class Caching(Simulated):
        def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:
            done = super().run_round(case, index, options, check)
            return make_round(
                index,
                prepare_s=(2.0 if self._name == "now" else 1.0) if index == 0 else 0.1,
                cache="cold" if index == 0 else "warm",
                series=done.series,
            )

    setting = Setting(tmp_path, flat, flat)
    setting._executors = [Caching(flat, setting.order, name, seed) for seed, name in enumerate(("now", "before"))]
    report = setting.run()
    assert set(setting.stages) == {"first"}
    (cold,) = {c.verdict for case in report.cases for c in case.changes if c.metric == "preparation"}
    assert cold == "undecided"
