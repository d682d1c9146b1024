"""Numbers as people see them: exact texts for known values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.report.numbers import decimals, duration, rate, ratio, seconds, size, stretch
from tare.stats.intervals import Interval


def about(mid: float, half: float, sound: bool = True) -> Interval:
    return Interval(mid - half, mid, mid + half, sound)


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (about(6.3124e-3, 0.04e-3), "6.31 ±0.04 ms"),
        (about(6.3124e-3, 0.14e-3), "6.3 ±0.1 ms"),
        (about(6.3124e-3, 1.4e-3), "6 ±1 ms"),
        (about(6.3124e-3, 0.002e-3), "6.312 ±0.002 ms"),
        (about(250e-6, 12e-6), "250 ±12 µs"),
        (about(41.37, 0.5), "41.4 ±0.5 s"),
        (about(812e-9, 3e-9), "812 ±3 ns"),
        # Four digits are all that is shown; a half width under the last of them is rounded up, never to zero.
        (about(123.4567e-3, 0.0001e-3), "123.5 ±0.1 ms"),
        (about(1.0, 1e-9), "1.000 ±0.001 s"),
        (about(1.0, 0.0), "1.000 ±0.000 s"),
        # Two rounds that disagree by a hundred have an interval that no cell could hold.
        (Interval(1e-3, 50e-3, 1e12), "50 ms ±>100%"),
        (about(6.3124e-3, 0.04e-3, sound=False), "6.31 ms"),
    ],
)
def test_digits_follow_the_noise(interval: Interval, text: str) -> None:
    assert duration(interval) == text


@given(
    st.floats(min_value=1e-9, max_value=999),
    st.floats(min_value=1e-12, max_value=1e12),
)
def test_a_duration_always_fits_into_its_cell(mid: float, spread: float) -> None:
    text = duration(Interval(mid, mid, mid + mid * spread))
    assert len(text) <= 17
    first, second, third = text.split()
    assert float(first) >= 0
    assert third == "±>100%" or float(second.removeprefix("±")) > 0


@given(st.floats(min_value=1e-9, max_value=1e4), st.floats(min_value=1e-6, max_value=0.5))
def test_a_shown_value_is_within_one_half_width_of_the_true_one(mid: float, noise: float) -> None:
    scales = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
    value, half, unit = duration(about(mid, noise * mid)).replace("±", "").split()
    assert abs(float(value) * scales[unit] - mid) <= float(half) * scales[unit] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("value", "uncertainty", "places"),
    [(6.3124, 0.04, 2), (6.3124, 0.4, 1), (6.3124, 4, 0), (631.24, 0.0001, 1), (0.06, 0.001, 3), (0, 0.1, 1)],
)
def test_decimals(value: float, uncertainty: float, places: int) -> None:
    assert decimals(value, uncertainty) == places


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (256.4, "256 s"),
        (12.34, "12.3 s"),
        (1.26, "1.3 s"),
        (0.0345, "34.5 ms"),
        (0.0042, "4.2 ms"),
        (7e-6, "7.0 µs"),
        (3e-9, "3.0 ns"),
        (0.0, "0.0 ns"),
    ],
)
def test_what_is_measured_once_has_two_or_three_digits(value: float | None, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "noise", "text"),
    [
        (2.3456, 0.001, "2.35x"),
        (2.3456, 0.05, "2.3x"),
        (23.456, 0.001, "23.5x"),
        (999.4, 0.001, "999x"),
        (1.0, 0.0, "1.00x"),
        (0.1234, 0.01, "0.123x"),
        (2.3456, 10.0, "2x"),
    ],
)
def test_a_ratio_has_the_digits_of_its_measurements(value: float, noise: float, text: str) -> None:
    assert ratio(value, noise) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.98 KiB"),
        (1536, "1.5 KiB"),
        (100 * 2**10, "100 KiB"),
        (int(12.34 * 2**20), "12.3 MiB"),
        (734 * 2**20, "734 MiB"),
        (1000 * 2**20, "0.98 GiB"),
        (int(139.8 * 2**30), "140 GiB"),
        (2**40, "1 TiB"),
        (5000 * 2**40, "5000 TiB"),
    ],
)
def test_sizes(count: int | None, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(61234.5, "61,200/s"), (9.876, "9.88/s"), (0.01234, "0.0123/s"), (4.5678e9, "4,570,000,000/s"), (None, "-")],
)
def test_rates_have_no_exponent(value: float | None, text: str) -> None:
    assert rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0 s"), (48.2, "48 s"), (99.0, "99 s"), (420.0, "7 min"), (5940.0, "99 min"), (11_160.0, "3.1 h")],
)
def test_how_long_something_may_take(value: float, text: str) -> None:
    assert stretch(value) == text
