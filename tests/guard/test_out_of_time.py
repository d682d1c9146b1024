"""A check whose time is over says of everything that it has not measured that it is undecided."""

from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import fromstring

from checking import CASES, Setting, flat, gross, slow_first

from tare.cases.options import Options
from tare.guard.changes import OUT_OF_TIME, Report
from tare.guard.check import RegressionCheck
from tare.report.changes import changes_view, summary_line
from tare.report.formats.github import comparison_github
from tare.report.formats.junit import comparison_junit
from tare.report.formats.markdown import comparison_markdown
from tare.report.terminal import plain_text

ROUNDS = 6


def check(setting: Setting, is_over: Callable[[], bool]) -> Report:
    """Measures again only what the journals of the setting do not have, as --resume does."""
    options = Options(rounds=ROUNDS)
    checking = RegressionCheck(
        options, setting._rules, setting.sides, setting.listener, [], lambda _: None, is_over
    )
    return checking.run(CASES)


def test_what_was_not_measured_is_undecided_in_every_format(tmp_path: Path) -> None:
    report = check(Setting(tmp_path, flat, flat), lambda: True)
    assert report.cases == []
    assert report.unfinished == dict.fromkeys((case.family for case in CASES), "0 of 6 rounds")
    assert report.exit_code == OUT_OF_TIME == 3
    assert summary_line(report) == "out of time: 6 of 6 cases undecided"
    told = f"{CASES[0].family}: out of time after 0 of 6 rounds, undecided"
    for text in (plain_text(changes_view(report)), comparison_markdown(report), comparison_github(report)):
        assert "no regression" not in text
    assert told in " ".join(plain_text(changes_view(report)).split())
    assert "⚠️" in comparison_markdown(report)
    assert len(fromstring(comparison_junit(report)).findall(".//skipped")) == len(CASES)


def test_a_suspect_that_could_not_be_confirmed_is_undecided_and_resuming_confirms_it(tmp_path: Path) -> None:
    setting = Setting(tmp_path, slow_first, flat)
    report = check(setting, lambda: "confirmation" in setting.stages)
    change = gross(report, CASES[0])
    assert (change.verdict, change.worse, change.regression) == ("undecided", False, False)
    assert change.note == "suspected, and not compared again: out of time"
    assert report.unfinished[CASES[0].family] == "0 of 30 rounds of its confirmation"
    assert report.exit_code == OUT_OF_TIME
    assert "no regression in the other" in summary_line(report)
    resumed = check(setting, lambda: False)
    assert [case.case for case in resumed.bad] == [CASES[0].family]
    assert (resumed.unfinished, resumed.exit_code) == ({}, 1)


def test_complete_pairs_are_compared_and_their_number_is_told(tmp_path: Path) -> None:
    """The time is over in the third round, after the pairs of two cases."""
    setting = Setting(tmp_path, flat, flat)
    report = check(setting, lambda: len(setting.order) >= 2 * (2 * len(CASES) + 2))
    assert len(setting.order) == 2 * (2 * len(CASES) + 2)
    done = [report.unfinished[case.family] for case in CASES]
    assert done == ["3 of 6 rounds"] * 2 + ["2 of 6 rounds"] * 4
    assert [(gross(report, case).rounds_a, gross(report, case).rounds_b) for case in CASES[1:3]] == [
        (3, 3),
        (2, 2),
    ]
    assert len(setting.order) < 2 * ROUNDS * len(CASES)
    complete = check(setting, lambda: False)
    assert complete.unfinished == {}
    assert gross(complete, CASES[2]).rounds_b == ROUNDS


def test_a_regression_that_is_confirmed_fails_the_check_although_the_time_is_over() -> None:
    from tare.guard.changes import CaseChange

    report = Report(a="a", b="b", created="", cases=[CaseChange(case="x", state="broken")], unfinished={"y": "1"})
    assert report.exit_code == 1
