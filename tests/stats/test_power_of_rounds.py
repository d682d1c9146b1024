"""How many rounds a question needs: the formulas beside simulation, and what must hold for any numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.guard_power import KINDS, NOISE, interleaved
from tare.stats.comparison import compare, judge
from tare.stats.power import detectable_change, rounds_to_decide, rounds_to_find


@pytest.mark.parametrize("rounds", [12, 24])
def test_a_detectable_change_is_detected_as_often_as_promised(rounds: int) -> None:
    change = detectable_change(NOISE, rounds, level=0.01, margin=0.02)
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(400):
        a, b = interleaved(KINDS["Gaussian"], rng, rounds, change)
        result = compare(a, b, paired=True)
        hits += result.higher <= 0.01 and judge(result, 0.02) == "higher"
    assert hits / 400 == pytest.approx(0.95, abs=0.03)


@given(st.floats(0.001, 0.3), st.integers(2, 200), st.floats(1e-4, 0.1))
def test_more_rounds_see_more_and_more_noise_hides_more(noise: float, rounds: int, level: float) -> None:
    here = detectable_change(noise, rounds, level)
    assert detectable_change(noise, rounds + 1, level) <= here
    assert detectable_change(2 * noise, rounds, level) >= here


@given(st.floats(0.02, 0.5), st.floats(0.001, 0.1), st.floats(1e-4, 0.1))
def test_the_fewest_rounds_are_the_fewest(change: float, noise: float, level: float) -> None:
    rounds = rounds_to_find(change, noise, level)
    if rounds is None:
        assert detectable_change(noise, 1000, level) > change
        return
    assert detectable_change(noise, rounds, level) <= change
    fewest = math.ceil(math.log2(1 / level))
    assert rounds <= max(fewest, 2) or detectable_change(noise, rounds - 1, level) > change


def test_no_number_of_rounds_finds_what_is_within_the_margin() -> None:
    assert rounds_to_find(0.01, 0.02, 0.01, margin=0.02) is None
    assert rounds_to_find(0.05, math.inf, 0.01) is None
    assert detectable_change(0.02, 1, 0.01) == math.inf


def test_the_rounds_that_would_decide_do_decide() -> None:
    """An undecided 3 % at 2 % noise: with as many rounds as it asks for, most repetitions are decided."""
    rng = np.random.default_rng(4)
    decided = asked = 0
    for _ in range(200):
        a, b = interleaved(KINDS["Gaussian"], rng, 10, 0.05)
        result = compare(a, b, paired=True)
        more = rounds_to_decide(result, 0.02)
        if judge(result, 0.02) != "undecided" or more is None or more > 60:
            continue
        asked += 1
        more_a, more_b = interleaved(KINDS["Gaussian"], rng, more, 0.05)
        decided += judge(compare(a + more_a, b + more_b, paired=True), 0.02) != "undecided"
    assert asked > 20
    assert decided / asked > 0.6


def test_one_cannot_know_without_an_interval() -> None:
    assert rounds_to_decide(compare([1.0], [1.1]), 0.02) is None
