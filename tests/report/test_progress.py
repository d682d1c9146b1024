"""What a log is told of a long run: how far it is, in numbers that are right, and not too often."""

import re
from pathlib import Path

import pytest
from builders import make_case, make_record, make_round
from checking import CASES, ROUNDS, Setting, flat, slow_first

from tare.report.progress import QUIET_S, Progress

COUNT = re.compile(r"(\d+) of (\d+) rounds; .* (\d+)/(\d+)")


class Clock:
    """Seconds that pass only where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_log_hears_nothing_of_a_short_run_but_its_records(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    case = make_case()
    with Progress(True, clock) as progress:
        progress.stage("looking at this machine")
        progress.starts(case, 0)
        clock.now += QUIET_S - 1
        progress.stage("measuring")
        progress.records(make_record(case=case))
        clock.now += QUIET_S - 1
        progress.stage("a line came less than so long ago")
    assert capsys.readouterr().err == f"{case.key} ok\n"


def test_a_log_hears_where_a_long_run_is(capsys: pytest.CaptureFixture[str], clock: Clock, tmp_path: Path) -> None:
    case, other = make_case(rung="eager"), make_case(rung="compile")
    known = Setting(tmp_path, flat, None).sides("first")[0].journal
    known.add_round(other, make_round(0))
    with Progress(True, clock) as progress:
        clock.now += QUIET_S
        progress.stage("looking at this machine")
        progress.plans({case: 3, other: 3}, [known])
        progress.starts(case, 0)
        progress.ends(case, make_round(0))
        clock.now += QUIET_S
        progress.starts(case, 1)
        progress.stage("building the native rungs, once")
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "looking at this machine"
    assert said[1:] == [f"2 of 6 rounds; {case.workload} eager infer b{case.batch} 2/3"]


def test_what_is_not_shown_is_not_said(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with Progress(False, clock) as progress:
        clock.now += QUIET_S
        progress.stage("looking at this machine")
        progress.records(make_record())
    assert capsys.readouterr().err == ""


def test_both_stages_of_a_check_are_counted_to_their_ends(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Hurried(Clock):
        def __call__(self) -> float:
            self.now += QUIET_S
            return self.now

    setting = Setting(tmp_path, slow_first, flat)
    with Progress(True, Hurried()) as progress:
        setting.listener = progress
        setting.run()
    told = [tuple(map(int, found.groups())) for found in COUNT.finditer(capsys.readouterr().err)]
    first, again = (
        [line for line in told if (line[1] == 2 * len(CASES) * ROUNDS) == is_first] for is_first in (True, False)
    )
    for lines in (first, again):
        # Of each round where it starts: so many are over by then.
        assert [done for done, *_ in lines] == list(range(lines[0][1]))
        assert all(1 <= at <= rounds for _, _, at, rounds in lines)
    assert {rounds for *_, rounds in first} == {ROUNDS}
    assert {2 * rounds for *_, rounds in again} == {again[0][1]}, "one case, on two sides"
