"""Slopes with an interval, and growth per step: leaks with known sizes, and series that only look like one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import theilslopes

from tare.stats.growth import MIN_POINTS, growth, slope_interval
from tare.stats.intervals import mean_interval


@given(st.floats(-1e4, 1e4), st.integers(MIN_POINTS, 400), st.floats(1, 1e9))
@settings(max_examples=60)
def test_a_straight_line_has_its_slope(slope: float, points: int, start: float) -> None:
    steps = np.arange(points) * 7.0
    assert growth(steps.tolist(), (start + slope * steps).tolist()) == pytest.approx(
        slope, rel=1e-3, abs=1e-6 * start
    )


def test_a_leak_under_noise_is_within_its_interval() -> None:
    rng = np.random.default_rng(1)
    steps = np.arange(40) * 50.0
    slopes = []
    for _ in range(6):
        slope = growth(steps.tolist(), (1e9 + 4096 * steps + rng.normal(0, 5e4, 40)).tolist())
        assert slope is not None
        slopes.append(slope)
    over = mean_interval(np.array(slopes))
    assert over.low <= 4096 <= over.high * 1.05
    assert over.low > 3000


def test_three_points_have_two_halves() -> None:
    """As a worker reads them: behind the warm-up, the pipelined series and the latency series."""
    assert growth([0, 100, 150], [1000.0, 11000.0, 16500.0]) == 100
    assert growth([0, 100, 150], [1000.0, 11000.0, 11000.0]) == 0
    assert growth([0, 100, 150], [1000.0, 11000.0, 9000.0]) == 0


@pytest.mark.parametrize("where", [5, 20, 35])
def test_what_grew_once_is_no_leak(where: int) -> None:
    values = [1e9] * where + [2e9] * (40 - where)
    assert growth(list(range(40)), values) == 0


def test_a_warm_up_that_ends_is_no_leak() -> None:
    values = [1e9 + 1e7 * min(i, 15) for i in range(40)]
    assert growth(list(range(40)), values) == 0


def test_few_points_say_nothing() -> None:
    assert growth([1, 2], [1, 2]) is None
    assert growth([1] * 20, list(range(20))) is None


def test_one_round_is_not_sound() -> None:
    assert not mean_interval(np.array([5.0])).sound


def test_a_line_has_its_slope_exactly() -> None:
    found = slope_interval([10.0 + 2.5 * i for i in range(10)])
    assert (found.low, found.mid, found.high) == pytest.approx((2.5, 2.5, 2.5))
    assert found.sound


def test_one_wild_point_moves_nothing() -> None:
    values = [1000.0] * 12
    values[4] = 9e9
    found = slope_interval(values)
    assert found.mid == 0
    assert found.low <= 0 <= found.high


def test_noise_about_a_level_is_no_slope_and_about_a_rise_is_one() -> None:
    draw = np.random.default_rng(0)
    held = covered = 0
    for _ in range(200):
        noise = draw.normal(0, 1, 15)
        level, rise = slope_interval(noise.tolist()), slope_interval((noise + 0.7 * np.arange(15)).tolist())
        held += level.low <= 0 <= level.high
        covered += rise.low <= 0.7 <= rise.high
    assert held >= 180
    assert covered >= 180


def test_few_points_are_not_sound() -> None:
    assert not slope_interval([1.0, 2.0, 3.0]).sound
    with pytest.raises(ValueError, match="two points"):
        slope_interval([1.0])


def test_positions_need_not_be_even() -> None:
    at = [0.0, 1.0, 10.0, 11.0, 50.0, 51.0]
    found = slope_interval([3.0 * x - 7.0 for x in at], at)
    assert (found.low, found.mid, found.high) == pytest.approx((3.0, 3.0, 3.0))


@pytest.mark.parametrize("ties", [1, 3, 40])
def test_the_slope_and_its_bounds_are_those_of_scipy(ties: int) -> None:
    draw = np.random.default_rng(ties)
    for count in (2, 3, 5, 17, 60):
        x, y = draw.integers(0, 60, count) // ties * ties, draw.normal(0, 5, count).round() // ties
        x[0] = 100  # Not all positions are the same.
        expected = theilslopes(y, x, 0.95)
        found = slope_interval(y, x)
        assert found[:3] == (expected.low_slope, expected.slope, expected.high_slope)
