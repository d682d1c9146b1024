"""Calibration from planted noise: the noise comes back, and what it hides is what simulation says."""

import random

import pytest
from builders import make_failure, make_record
from rich.console import Console

from tare.errors import BadInput
from tare.guard.calibrate import calibrate, refuse_empty
from tare.guard.metrics import get_metrics
from tare.guard.thresholds import Thresholds, make_thresholds
from tare.report.noise import noise_view

GROSS = get_metrics(["gross"])


def noisy(noise: float, rounds: int = 200) -> list[float]:
    drawn = random.Random(3)
    return [1e-3 * drawn.lognormvariate(0, noise) for _ in range(rounds)]


def test_what_is_ignored_is_left_out() -> None:
    quiet = make_thresholds({"metric": {"latency": {"ignore": True}}}, "here")
    lines = calibrate([make_record(steps_s=noisy(0.01, 8))], quiet, get_metrics(["gross", "latency"]))
    assert [line.metric for line in lines] == ["gross"]


def test_an_empty_table_is_refused_and_a_failure_is_not() -> None:
    energy, record = get_metrics(["energy"]), make_record(steps_s=noisy(0.01, 8))
    with pytest.raises(BadInput, match=r"noise of energy.*\(they have gross, "):
        refuse_empty(calibrate([record], Thresholds(), energy), [record], energy)
    refuse_empty(calibrate([record], Thresholds(), GROSS), [record], GROSS)
    refuse_empty([], [make_record(rounds=[], failure=make_failure())], GROSS)


@pytest.mark.parametrize("noise", [0.005, 0.02, 0.1])
def test_the_noise_between_processes_comes_back(noise: float) -> None:
    (line,) = calibrate([make_record(steps_s=noisy(noise))], Thresholds(), GROSS)
    assert line.noise == pytest.approx(noise, rel=0.15)
    assert line.typical == pytest.approx(1e-3, rel=0.03)
    assert line.correlation == pytest.approx(0, abs=0.2)
    assert line.aa_verdict in ("same", "undecided")


def test_more_noise_hides_more_and_costs_more() -> None:
    quiet, loud = (calibrate([make_record(steps_s=noisy(n))], Thresholds(), GROSS)[0] for n in (0.01, 0.04))
    for rounds in quiet.detectable:
        small, large = quiet.detectable[rounds], loud.detectable[rounds]
        assert small is not None
        assert large is not None
        assert 0.02 < small < large
    assert quiet.rounds_for_threshold is not None
    assert loud.rounds_for_threshold is not None
    assert quiet.rounds_for_threshold < loud.rounds_for_threshold
    # Every builder's round takes 1.5 s; both sides are counted.
    assert quiet.seconds_for_threshold == pytest.approx(2 * 1.5 * quiet.rounds_for_threshold)


def test_two_percent_noise_needs_about_a_dozen_rounds_for_seven_percent() -> None:
    (line,) = calibrate([make_record(steps_s=noisy(0.02))], Thresholds(), GROSS)
    assert line.rounds_for_threshold is not None
    assert 6 <= line.rounds_for_threshold <= 16


def test_drifting_rounds_are_correlated() -> None:
    (line,) = calibrate([make_record(steps_s=[1e-3 * (1 + 0.01 * i) for i in range(20)])], Thresholds(), GROSS)
    assert line.correlation is not None
    assert line.correlation > 0.5


def test_too_few_rounds_and_absent_metrics_have_no_line() -> None:
    assert calibrate([make_record(steps_s=(1e-3, 1e-3, 1e-3))], Thresholds(), GROSS) == []
    assert calibrate([make_record(steps_s=noisy(0.01))], Thresholds(), get_metrics(["energy", "kernels"])) == []


def test_a_case_that_failed_is_named_with_its_cause() -> None:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(noise_view([], [make_record(rounds=[], failure=make_failure())]))
    assert console.export_text().rstrip().endswith("exception in prepare: it broke")


def test_the_view_fits() -> None:
    lines = calibrate(
        [make_record(steps_s=noisy(0.01)), make_record(steps_s=noisy(2.0))], Thresholds(), get_metrics(None)
    )
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(noise_view(lines))
    text = console.export_text()
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "gross" in text
