"""Growth per step: leaks with known sizes, and what only looks like one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.stats.growth import FEWEST_POINTS, growth, growth_over_rounds


@given(st.floats(-1e4, 1e4), st.integers(FEWEST_POINTS, 400), st.floats(1, 1e9))
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
    over = growth_over_rounds(slopes)
    assert over is not None
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
    assert growth_over_rounds([]) is None


def test_one_round_is_not_sound() -> None:
    found = growth_over_rounds([5.0])
    assert found is not None
    assert not found.sound
