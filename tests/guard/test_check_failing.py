"""A check of what fails: now and not before, always or in some rounds, once or again."""

import itertools
from pathlib import Path

import pytest
from builders import make_record
from checking import CASES, Setting, StepS, flat, gross, slow_first

from tare.cases.case import Case
from tare.stats.two_stage import FUTILE_P, OVERWHELMING_ROUNDS


def test_rounds_that_fail_now_and_then_are_told_of_both_measurements(tmp_path: Path) -> None:
    """The slow case fails in every third of its rounds: the others are compared, and its failures are told."""
    rounds: dict[int, int] = {}

    def flaky(case: Case, _: int) -> float:
        rounds[case.batch] = rounds.get(case.batch, 0) + 1
        return 0.0 if case.batch == 1 and rounds[1] % 3 == 0 else slow_first(case, 0)

    report = Setting(tmp_path, flaky, flat).run()
    told = next(case.reason for case in report.cases if case.case == CASES[0].key)
    assert told.startswith("2 of 6 rounds failed now (exception: it broke), then ")
    assert gross(report, CASES[0]).stage == "confirmed"


def failing(every: int, until: int | None = None) -> StepS:
    """Of the first case one round in so many fails, until so many rounds of it are over."""
    rounds = itertools.count(1)

    def step_s(case: Case, _: int) -> float:
        if case.batch != 1:
            return 1e-3
        number = next(rounds)
        return 0.0 if number % every == 0 and (until is None or number <= until) else 1e-3

    return step_s


@pytest.mark.parametrize("stored", [False, True])
def test_rounds_that_fail_now_and_did_not_before_fail_the_check_if_some_do_again(
    stored: bool, tmp_path: Path
) -> None:
    setting = Setting(tmp_path, failing(every=6), None if stored else flat)
    report = setting.run([make_record(case) for case in CASES] if stored else None)
    assert report.exit_code == 1
    (bad,) = [case for case in report.bad if case.newly_failing]
    assert (bad.case, bad.state) == (CASES[0].key, "compared")
    # So many rounds meet again what fails in one of six, with 95 %.
    assert bad.reason == (
        "1 of 6 rounds failed now (exception: it broke), then 2 of 17 rounds failed now (exception: it broke)"
    )


def test_a_round_that_failed_and_none_again_is_told_and_fails_nothing(tmp_path: Path) -> None:
    report = Setting(tmp_path, failing(every=6, until=6), flat).run()
    assert report.exit_code == 0
    told = next(case.reason for case in report.cases if case.case == CASES[0].key)
    assert told == "1 of 6 rounds failed now (exception: it broke), and none of 17 again"


def test_what_fails_now_and_then_on_both_sides_is_no_news(tmp_path: Path) -> None:
    assert Setting(tmp_path, failing(every=3), failing(every=3)).run().exit_code == 0
    (tmp_path / "b").mkdir()
    # Nor is what the baseline's version is seen to do as well, once there are more rounds of it.
    later = Setting(tmp_path / "b", failing(every=6), failing(every=9)).run()
    assert later.exit_code == 0
    assert "rounds failed before" in next(case.reason for case in later.cases if case.case == CASES[0].key)


def test_without_a_confirmation_the_first_rounds_decide_what_fails(tmp_path: Path) -> None:
    report = Setting(tmp_path, failing(every=6), flat, confirm_rounds=0).run()
    assert [case.case for case in report.bad if case.newly_failing] == [CASES[0].key]


def test_what_fails_at_first_and_then_sometimes_did_not_fail_once(tmp_path: Path) -> None:
    """Whose very first round fails is given up, and fails; when it is measured again some rounds do well."""
    taken = itertools.count(1)

    def step_s(case: Case, _: int) -> float:
        number = next(taken) if case.batch == 1 else 0
        return 0.0 if number == 1 or (number and number % 3 == 0) else 1e-3

    report = Setting(tmp_path, step_s, flat).run()
    assert report.exit_code == 1
    (bad,) = report.bad
    assert (bad.state, bad.newly_failing) == ("compared", True)
    assert bad.reason.startswith("failed at first (exception: it broke), then 2 of 6 rounds failed now")


def test_a_case_that_fails_twice_is_broken_and_one_that_fails_once_is_not(tmp_path: Path) -> None:
    report = Setting(tmp_path, lambda case, _: 0.0 if case.batch == 2 else 1e-3, flat).run()
    assert {case.case: case.state for case in report.bad} == {CASES[1].key: "broken"}
    (tmp_path / "b").mkdir()
    once = Setting(tmp_path / "b", lambda case, taken: 0.0 if case.batch == 2 and taken < 12 else 1e-3, flat).run()
    assert once.exit_code == 0
    assert any("failed once and not again" in case.reason for case in once.cases)


def test_what_leaks_has_all_its_rounds_though_it_is_no_slower_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suspected of a leak and, in the first rounds alone, of being slow: it is not let go with the latter."""
    taken = itertools.count()

    def slow_at_first(case: Case, _: int) -> float:
        if case.batch != 1:
            return 1e-3
        return 1.2e-3 if next(taken) < OVERWHELMING_ROUNDS else 0.95e-3

    def rounds_again(folder: str) -> int:
        (tmp_path / folder).mkdir()
        setting = Setting(tmp_path / folder, slow_at_first, flat, confirm_rounds=20)
        setting.only("gross")
        setting.run()
        return len(setting._journals["confirmation"][0].record(CASES[0]).rounds)

    assert rounds_again("slow") == min(FUTILE_P)
    taken = itertools.count()
    monkeypatch.setattr("tare.guard.check.leaks", lambda _a, b, _: ["it grows"] if b.case == CASES[0] else [])
    assert rounds_again("leaking") == 20
