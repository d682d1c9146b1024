"""Steps in series with known answers: found near their place, with their size; drift and noise are none."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tare.stats.changepoints import find_change_points, shortest_segment

Numbers = NDArray[np.float64]


def noisy(size: int, seed: int, noise: float = 0.02) -> Numbers:
    values: Numbers = np.exp(np.random.default_rng(seed).normal(0, noise, size))
    return values


def autoregressive(size: int, seed: int, phi: float, noise: float = 0.02) -> Numbers:
    chance = np.random.default_rng(seed)
    values = np.empty(size)
    values[0] = chance.normal(0, noise)
    for i in range(1, size):
        values[i] = phi * values[i - 1] + chance.normal(0, noise * math.sqrt(1 - phi**2))
    return np.exp(values)


@pytest.mark.parametrize("ratio", [1.05, 0.95, 1.3, 10.0])
def test_a_change_is_found_at_its_place_with_its_size(ratio: float) -> None:
    values = noisy(120, 1) * np.where(np.arange(120) >= 70, ratio, 1.0)
    (change,) = find_change_points(values).change_points
    assert change.earliest <= 70 <= change.latest
    assert abs(change.position - 70) <= 3
    assert change.ratio.low < ratio < change.ratio.high
    assert change.after / change.before == pytest.approx(change.ratio.mid)


def test_size_and_place_are_covered_as_promised() -> None:
    """Over 60 series: 95 % intervals, for the size and for the place."""
    size = place = found = 0
    for seed in range(60):
        at = 40 + seed % 40
        changes = find_change_points(
            noisy(120, 100 + seed) * np.where(np.arange(120) >= at, 1.05, 1.0)
        ).change_points
        for change in changes:
            found += 1
            size += change.ratio.low <= 1.05 <= change.ratio.high
            place += change.earliest <= at <= change.latest
    assert found >= 57
    # 60 draws at 95 % fall below 52 once in a thousand.
    assert size >= found - 8
    assert place >= found - 8


def test_several_steps_up_and_down() -> None:
    levels = np.repeat([1.0, 1.1, 1.0, 0.9], [60, 40, 50, 50])
    changes = find_change_points(noisy(200, 3, 0.01) * levels).change_points
    assert [change.position for change in changes] == pytest.approx([60, 100, 150], abs=2)
    assert [change.ratio.mid for change in changes] == pytest.approx([1.1, 1 / 1.1, 0.9], rel=0.02)


def alarms(series: list[Numbers]) -> int:
    return sum(bool(find_change_points(values).change_points) for values in series)


def test_noise_alone_raises_no_alarm() -> None:
    """About one in a hundred is the rate: more than 4 in 80 would come once in a thousand."""
    assert alarms([noisy(100, seed) for seed in range(80)]) <= 4


def test_outliers_are_no_changes() -> None:
    def with_outliers(seed: int) -> Numbers:
        chance = np.random.default_rng(seed)
        return noisy(100, seed) * np.where(chance.random(100) < 0.05, chance.uniform(1.1, 1.5, 100), 1.0)

    assert alarms([with_outliers(seed) for seed in range(60)]) <= 4


@pytest.mark.parametrize("phi", [0.3, 0.6, 0.8])
def test_correlated_noise_is_no_step(phi: float) -> None:
    assert alarms([autoregressive(100, seed, phi) for seed in range(60)]) <= 5


@pytest.mark.parametrize("total", [0.04, 0.1, 0.5])
def test_drift_is_no_step(total: float) -> None:
    drift = np.exp(np.linspace(0, total, 100))
    assert alarms([noisy(100, seed) * drift for seed in range(60)]) <= 5


def test_a_slow_wave_is_no_step() -> None:
    wave = 1 + 0.06 * np.sin(2 * np.pi * np.arange(100) / 100)
    assert alarms([noisy(100, seed) * wave for seed in range(40)]) <= 4


def test_a_step_on_a_drift_is_found() -> None:
    found = 0
    for seed in range(20):
        values = (
            noisy(100, seed, 0.01) * np.exp(np.linspace(0, 0.05, 100)) * np.where(np.arange(100) >= 50, 1.06, 1)
        )
        found += any(abs(change.position - 50) <= 5 for change in find_change_points(values).change_points)
    assert found >= 18


def test_counts_without_noise() -> None:
    (change,) = find_change_points([120] * 10 + [121] * 8).change_points
    assert (change.position, change.earliest, change.latest) == (10, 10, 10)
    assert change.before == pytest.approx(120)
    assert change.after == pytest.approx(121)
    assert find_change_points([120] * 30).change_points == []


def test_ten_thousand_points() -> None:
    values = noisy(10_000, 5, 0.03)
    values[3000:3040] *= 1.2
    values[8000:] *= 0.95
    assert [change.position for change in find_change_points(values).change_points] == pytest.approx(
        [3000, 3040, 8000], abs=3
    )


def test_a_series_that_is_too_short_says_nothing() -> None:
    for size in range(8):
        assert find_change_points([1.0] * (size // 2) + [2.0] * (size - size // 2)).change_points == []


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_what_has_no_logarithm_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        find_change_points([1.0] * 20 + [value])


SERIES = st.lists(st.floats(1e-9, 1e9), max_size=80)


@settings(max_examples=150)
@given(SERIES)
def test_any_series_gives_a_whole_segmentation(values: list[float]) -> None:
    segmentation = find_change_points(values)
    edges = [0, *(change.position for change in segmentation.change_points), len(values)]
    if values:
        assert [(a, b) for a, b, *_ in segmentation.segments] == list(pairwise(edges))
    for change in segmentation.change_points:
        assert 0 < change.earliest <= change.position <= change.latest < len(values)
        assert 0 < change.ratio.low <= change.ratio.mid <= change.ratio.high
    assert all(b - a >= 1 for a, b, *_ in segmentation.segments)


@settings(max_examples=60)
@given(SERIES, st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(values: list[float], scale: float) -> None:
    """Seconds or milliseconds: the same changes. (Ties within rounding may fall either way.)"""
    here = find_change_points(values).change_points
    there = find_change_points([value * scale for value in values]).change_points
    if len(here) == len(there):
        for a, b in zip(here, there, strict=True):
            assert abs(a.position - b.position) <= shortest_segment(len(values))
            if a.position == b.position:
                assert a.ratio.mid == pytest.approx(b.ratio.mid, rel=1e-3)
