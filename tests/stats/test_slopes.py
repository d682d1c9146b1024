"""A slope with an interval: exact on a line, deaf to one wild point, honest about few points."""

import numpy as np
import pytest

from tare.stats.slopes import slope_interval


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
