"""Properties of the intervals, and their answers on inputs small enough to work out by hand."""

import math
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.stats.intervals import Interval, median_interval, process_interval, sign_correlation_time

times = st.floats(min_value=1e-7, max_value=1e3, allow_nan=False)
many = st.lists(times, min_size=1, max_size=120)
levels = st.floats(min_value=0.5, max_value=0.999)


@given(many, levels)
def test_the_median_lies_inside_its_interval(samples: list[float], confidence: float) -> None:
    found = median_interval(samples, confidence)
    assert found.mid == np.median(samples)
    assert min(samples) <= found.low <= found.mid <= found.high <= max(samples)


@given(many, levels, levels)
def test_more_confidence_never_narrows_the_median_interval(samples: list[float], a: float, b: float) -> None:
    loose, strict = (median_interval(samples, level) for level in sorted((a, b)))
    assert strict.low <= loose.low
    assert loose.high <= strict.high
    assert loose.sound or not strict.sound


@given(many, st.integers(min_value=-20, max_value=20))
def test_the_median_interval_scales_with_its_samples(samples: list[float], power: int) -> None:
    # A power of two scales floats exactly, so the answer must be equal and not merely close.
    plain, scaled = median_interval(samples), median_interval([math.ldexp(s, power) for s in samples])
    low, mid, high = (math.ldexp(x, power) for x in plain[:3])
    assert scaled == Interval(low, mid, high, plain.sound)


@given(many)
def test_time_has_no_direction_for_the_median_interval(samples: list[float]) -> None:
    assert median_interval(samples) == median_interval(samples[::-1])


@given(many, st.randoms())
def test_order_moves_the_bounds_of_a_median_but_not_the_median(samples: list[float], random: Random) -> None:
    shuffled = random.sample(samples, len(samples))
    assert median_interval(shuffled).mid == median_interval(samples).mid


def test_no_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_too_few_samples_give_their_range_and_are_not_sound(count: int) -> None:
    samples = [float(i) for i in range(1, count + 1)]
    found = median_interval(samples)
    assert found == Interval(1.0, (1 + count) / 2, float(count), sound=False)
    assert found.width == math.inf


def test_the_ranks_are_those_of_the_binomial_distribution() -> None:
    # Conover's table: of 20 independent samples the 6th and the 15th bound the median at 95.9 %.
    alternating = [float(x) for pair in zip(range(1, 11), range(20, 10, -1), strict=True) for x in pair]
    assert median_interval(alternating) == Interval(6.0, 10.5, 15.0)


def test_extremes_of_six_bound_a_median_at_95_but_not_at_99_percent() -> None:
    alternating = [1.0, 6.0, 2.0, 5.0, 3.0, 4.0]
    assert median_interval(alternating, 0.95) == Interval(1.0, 3.5, 6.0)
    assert not median_interval(alternating, 0.99).sound


@given(times, st.integers(min_value=6, max_value=60))
def test_constant_samples_have_no_width(value: float, count: int) -> None:
    found = median_interval([value] * count)
    assert found == Interval(value, value, value)
    assert found.width == 0


def test_a_steady_climb_holds_almost_no_information() -> None:
    climb = [1 + i / 100 for i in range(100)]
    assert sign_correlation_time(np.array(climb), float(np.median(climb))) > 20
    assert not median_interval(climb).sound


def test_alternating_samples_count_in_full() -> None:
    assert sign_correlation_time(np.array([1.0, 2.0] * 50), 1.5) == 1


@pytest.mark.parametrize("interval", [Interval(-1, 0, 1), Interval(-3, -2, -1), Interval(1, 2, 3, sound=False)])
def test_a_share_of_nothing_is_infinite(interval: Interval) -> None:
    assert interval.width == math.inf


def test_width_is_half_the_interval_as_a_share_of_its_middle() -> None:
    assert Interval(9.0, 10.0, 13.0).width == pytest.approx(0.2)


@given(st.lists(times, min_size=2, max_size=30), levels)
def test_process_interval_holds_the_middle_process(medians: list[float], confidence: float) -> None:
    found = process_interval(medians, confidence)
    assert found.sound
    assert found.low <= found.mid == np.median(medians) <= found.high


@given(st.lists(times, min_size=2, max_size=30), levels, levels)
def test_more_confidence_never_narrows_a_process_interval(medians: list[float], a: float, b: float) -> None:
    bounds = [process_interval(medians, level) for level in sorted((a, b))]
    assert all(strict.low <= loose.low and loose.high <= strict.high for loose, strict in pairwise(bounds))


@given(st.lists(times, min_size=2, max_size=30), st.permutations(range(30)), st.floats(1e-3, 1e3))
def test_processes_have_no_order_and_no_unit(medians: list[float], order: list[int], factor: float) -> None:
    shuffled = [medians[i] * factor for i in order if i < len(medians)]
    expected = [x * factor for x in process_interval(medians)[:3]]
    assert list(process_interval(shuffled)[:3]) == pytest.approx(expected, rel=1e-9)


def test_process_interval_is_students_of_the_logarithms() -> None:
    # Logarithms -1, 0, 1: mean 0, deviation 1, t(2 degrees, 97.5 %) = 4.30265.
    half = 4.302652729911275 / math.sqrt(3)
    found = process_interval([math.exp(-1), 1.0, math.e])
    assert found == pytest.approx(Interval(math.exp(-half), 1.0, math.exp(half)))


def test_one_process_knows_nothing_of_the_others() -> None:
    assert process_interval([0.5]) == Interval(0.5, 0.5, 0.5, sound=False)


def test_equal_processes_have_no_width() -> None:
    assert process_interval([0.25, 0.25, 0.25]) == pytest.approx(Interval(0.25, 0.25, 0.25))
