"""Which machine is not like its peers: numbers with known answers."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.stats.agreement import LIMIT, judge_agreement

SAME = [1.00, 1.01, 0.99, 1.00, 1.02]


def scaled(factor: float) -> list[float]:
    return [factor * value for value in SAME]


def drifting(times: dict[str, list[float]], limit: float = LIMIT) -> list[str]:
    return sorted(name for name, verdict in judge_agreement(times, limit).items() if verdict.drifts)


def test_machines_within_the_limit_agree() -> None:
    verdicts = judge_agreement({"a": SAME, "b": scaled(1.05), "c": scaled(1.09)})
    assert not any(verdict.drifts for verdict in verdicts.values())
    assert verdicts["b"].ratio == pytest.approx(1.0)
    assert verdicts["a"].ratio == pytest.approx(1 / 1.05)


def test_a_slow_machine_is_named_however_many_there_are() -> None:
    for peers in (1, 2, 3, 8):
        times = {f"peer-{i}": SAME for i in range(peers)} | {"slow": scaled(1.3)}
        assert drifting(times) == ["slow"]


def test_a_machine_that_is_too_fast_is_named_among_three() -> None:
    assert drifting({"a": SAME, "b": SAME, "fast": scaled(0.8)}) == ["fast"]


def test_of_two_the_slower_is_left_out() -> None:
    assert drifting({"a": SAME, "b": scaled(2)}) == ["b"]


def test_a_single_machine_has_nobody_to_differ_from() -> None:
    assert judge_agreement({"a": SAME})["a"] == (1.0, False)


def test_one_disturbed_process_is_no_drift() -> None:
    assert drifting({"a": SAME, "b": SAME, "c": [*SAME[:4], 9.0]}) == []


def test_noise_that_overlaps_is_no_drift() -> None:
    noisy = [0.98, 1.2, 1.25, 1.3, 1.35]
    assert judge_agreement({"a": SAME, "b": SAME, "noisy": noisy})["noisy"].ratio == pytest.approx(1.25)
    assert drifting({"a": SAME, "b": SAME, "noisy": noisy}) == []


def test_a_machine_without_a_time_is_not_judged() -> None:
    assert set(judge_agreement({"a": SAME, "b": []})) == {"a"}
    assert judge_agreement({}) == {}


def test_equal_machines_are_seldom_left_out() -> None:
    """Two machines, five processes each, a lot of noise: one in 126 both ways by the ranks alone."""
    source, alarms, trials = random.Random(7), 0, 4000
    for _ in range(trials):
        times = {name: [source.lognormvariate(0, 0.3) for _ in range(5)] for name in "ab"}
        alarms += bool(drifting(times))
    assert alarms <= trials * 2 / 252 * 1.5


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=6), st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(values: list[float], unit: float) -> None:
    times = {"a": values, "b": [1.5 * value for value in values]}
    scaled_times = {name: [unit * value for value in each] for name, each in times.items()}
    assert drifting(times) == drifting(scaled_times)
