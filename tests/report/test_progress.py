"""What a log and a terminal show of a run while it is measured."""

import itertools
import re
from pathlib import Path

import pytest
from builders import make_case, make_record, make_round
from mock_runs import MemoryJournal

from tare.records.record import Parity
from tare.report.progress import QUIET_S, STAGE_S, Progress
from tare.report.terminal import plain_text
from tare.stats.two_stage import OVERWHELMING_ROUNDS

COUNT = re.compile(r"(\d+) of (\d+) rounds; .* (\d+)/(\d+)")


class Clock:
    """A clock that only a test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_log_hears_of_records_and_of_stages_that_take_long(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    case = make_case()
    with Progress(True, clock) as progress:
        progress.stage_changed("looking at this machine")
        progress.round_started(case, 0)
        progress.stage_changed("compiling: seconds to minutes")
        progress.stage_changed("compiling: seconds to minutes")
        clock.now += QUIET_S - 1
        progress.stage_changed("sample")
        progress.record_finished(make_record(case=case))
        progress.stage_changed("less than three seconds after a line")
        clock.now += STAGE_S
        progress.stage_changed("computing the float64 reference")
    name = f"mlp eager infer b{case.batch}"
    assert capsys.readouterr().err.splitlines() == [
        f"{name} 1/1 compiling: seconds to minutes",
        f"{name}: 1.00 ±0.02 ms",
        f"{name} 1/1 computing the float64 reference",
    ]


def test_a_log_hears_where_a_long_run_is_and_the_first_figure_of_each_rung(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    eager, compiled = make_case(rung="eager"), make_case(rung="compile")
    known = MemoryJournal()
    known.add_round(eager, make_round(0, 1e-3))
    with Progress(True, clock) as progress:
        progress.planned({eager: 3, compiled: 3}, [known])
        progress.round_started(compiled, 0)
        progress.round_finished(compiled, make_round(0, 0.5e-3))
        clock.now += QUIET_S
        progress.round_started(compiled, 1)
        progress.stage_changed("sample")
        progress.round_finished(compiled, make_round(1, 0.5e-3))
        different = Parity(status="different", error=0.5, tolerance=1e-4, worst="output/0", compared=1)
        progress.round_finished(compiled, make_round(2, 0.5e-3, parity=different))
        steps = (0.5e-3, 0.5e-3, 0.5e-3)
        progress.record_finished(make_record(compiled, steps_s=steps))
    assert capsys.readouterr().err.splitlines() == [
        "compile: 500 µs, 2.0x eager, 1 of 3 rounds",
        f"2 of 6 rounds; mlp compile infer b{compiled.batch} 2/3",
        "compile: 500.0 ±0.1 µs, DIFFERENT",
    ]


def test_a_terminal_shows_the_ladder_as_it_grows(clock: Clock) -> None:
    eager, compiled, other = make_case(rung="eager"), make_case(rung="compile"), make_case(batch=1)
    journal = MemoryJournal()
    progress = Progress(True, clock)
    progress.planned({eager: 2, compiled: 2, other: 2}, [journal])
    progress.round_started(eager, 0)
    progress.round_finished(eager, make_round(0, 1e-3))
    progress.round_started(compiled, 0)
    text = plain_text(progress.view())
    assert [line.split() for line in text.splitlines()[1:4]] == [
        ["rung", "gross", "x", "eager", "rounds"],
        ["eager", "1.0", "ms", "1.00x", "1", "of", "2"],
        ["compile", "-", "0", "of", "2"],
    ]
    assert "mlp compile infer b32 1/2" in text


def test_what_is_not_shown_is_not_said(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with Progress(False, clock) as progress:
        clock.now += QUIET_S
        progress.stage_changed("looking at this machine")
        progress.record_finished(make_record())
    assert capsys.readouterr().err == ""


def test_both_stages_of_a_check_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from checking import CASES, ROUNDS, Setting, flat, slow_first

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
        assert all(1 <= at <= rounds for _, _, at, rounds in lines)
    # Of each round where it starts: so many are over by then. The rounds that so clear a change does not need are
    # over at once, on both sides.
    spared = 2 * (ROUNDS - OVERWHELMING_ROUNDS)
    steps = [after[0] - before[0] for before, after in itertools.pairwise(first)]
    assert first[0][0] == 0
    assert sorted(steps) == [1] * (len(steps) - 1) + [1 + spared]
    assert len(first) == first[0][1] - spared
    assert [done for done, *_ in again] == list(range(len(again)))
    # An interim analysis ends the confirmation of so clear a change.
    assert 0 < len(again) < again[0][1]
    assert {rounds for *_, rounds in first} == {ROUNDS}
    assert {2 * rounds for *_, rounds in again} == {again[0][1]}, "one case, on two sides"
