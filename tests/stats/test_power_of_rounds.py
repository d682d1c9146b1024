"""How many rounds a question needs: the formulas beside simulation, and what must hold for any numbers."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.guard_power import MARGIN, interleaved
from benchmarks.noise import NOISE
from tare.stats.comparison import compare, judge
from tare.stats.power import detectable_change, rounds_to_decide, rounds_to_detect
from tare.stats.two_stage import LEVEL, confirm


@pytest.mark.parametrize("rounds", [12, 24])
def test_a_detectable_change_is_detected_as_often_as_promised(rounds: int) -> None:
    change = detectable_change(NOISE, rounds, level=0.01, margin=0.02)
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(400):
        measured = interleaved("Gaussian", rng, rounds, change)
        result = compare(measured.a, measured.b, paired=True)
        hits += result.p_higher <= 0.01 and judge(result, 0.02) == "higher"
    assert hits / 400 == pytest.approx(0.95, abs=0.03)


@given(st.floats(0.001, 0.3), st.integers(2, 200), st.floats(1e-4, 0.1))
def test_more_rounds_see_more_and_more_noise_hides_more(noise: float, rounds: int, level: float) -> None:
    here = detectable_change(noise, rounds, level)
    assert detectable_change(noise, rounds + 1, level) <= here
    assert detectable_change(2 * noise, rounds, level) >= here


@given(st.floats(0.02, 0.5), st.floats(0.001, 0.1), st.floats(1e-4, 0.1))
def test_the_fewest_rounds_are_the_fewest(change: float, noise: float, level: float) -> None:
    rounds = rounds_to_detect(change, noise, level)
    if rounds is None:
        assert detectable_change(noise, 1000, level) > change
        return
    assert detectable_change(noise, rounds, level) <= change
    fewest = math.ceil(math.log2(1 / level))
    assert rounds <= max(fewest, 2) or detectable_change(noise, rounds - 1, level) > change


def test_no_number_of_rounds_finds_what_is_within_the_margin() -> None:
    assert rounds_to_detect(0.01, 0.02, 0.01, margin=0.02) is None
    assert rounds_to_detect(0.05, math.inf, 0.01) is None
    assert detectable_change(0.02, 1, 0.01) == math.inf


@given(st.floats(0, 0.1), st.floats(0.01, 0.2), st.sampled_from([0.01, 0.005, 0.0001]))
def test_what_rounds_can_see_and_how_many_it_takes_agree(noise: float, change: float, level: float) -> None:
    """`calibrate` shows both: six rounds that see 5 % are enough for a threshold of 7 %."""
    needed = rounds_to_detect(change, noise, level)
    for rounds in (2, 6, 9):
        if detectable_change(noise, rounds, level) <= change:
            assert needed is not None
            assert needed <= rounds
    if needed is not None:
        assert detectable_change(noise, needed, level) <= change
        assert needed < 10 or 2**-needed <= level


@pytest.mark.parametrize("family", [1, 15])
@pytest.mark.parametrize("rounds", [6, 10, pytest.param(30, marks=pytest.mark.full)])
def test_the_rounds_that_would_decide_do_decide(rounds: int, family: int) -> None:
    """Confirmations of true changes of 0, 3, 5 and 12 % at 2 and 6 % noise, among `family` tests: with as many
    rounds as it asks for, most of the undecided are decided."""
    rng = np.random.default_rng(4)
    decided = asked = 0
    for change, noise in itertools.product((0.0, 0.03, 0.05, 0.12), (0.02, 0.06)):
        for _ in range(75):
            a, b = drawn(rng, rounds, change, noise)
            found = compare(a, b, paired=True)
            more = rounds_to_decide(found, MARGIN, LEVEL / family)
            if confirm([found], [MARGIN], family) != ["undecided"] or more is None or more > 100:
                continue
            asked += 1
            a_more, b_more = drawn(rng, more, change, noise)
            again = compare(a + a_more, b + b_more, paired=True)
            decided += confirm([again], [MARGIN], family) != ["undecided"]
    assert asked > 10
    assert decided / asked > 0.6


def test_an_interval_clear_of_the_margin_does_not_decide_what_the_p_value_does_not() -> None:
    """Twelve pairs whose interval lies beyond the margin, among 15 tests: one more round would not do."""
    rng = np.random.default_rng(6)
    for _ in range(200):
        found = compare(*drawn(rng, 12, 0.12, 0.06), paired=True)
        if found.ratio.low > 1 + MARGIN and confirm([found], [MARGIN], 15) == ["undecided"]:
            break
    alone, together = (rounds_to_decide(found, MARGIN, LEVEL / family) for family in (1, 15))
    assert alone is not None
    assert together is not None
    assert 1 <= alone < together


def test_nothing_is_foretold_of_what_noise_alone_may_have_made() -> None:
    """No change at 12 % noise: an estimate beyond the margin is luck, and hardly ever is a number named."""
    rng = np.random.default_rng(7)
    named = [rounds_to_decide(compare(*drawn(rng, 10, 0.0, 0.12), paired=True), MARGIN, LEVEL) for _ in range(200)]
    assert sum(more is not None and more < 150 for more in named) <= 16


def drawn(rng: np.random.Generator, rounds: int, change: float, noise: float) -> tuple[list[float], list[float]]:
    before, now = np.exp(rng.normal(0, noise, (2, rounds)))
    return before.tolist(), ((1 + change) * now).tolist()


def test_one_cannot_know_without_an_interval() -> None:
    assert rounds_to_decide(compare([1.0], [1.1]), 0.02, LEVEL) is None
