"""Interval algebra against sets of integers: every law, on random intervals, exactly."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.trace import intervals as iv

Pairs = Sequence[tuple[int, int]]
pairs = st.lists(st.tuples(st.integers(-40, 40), st.integers(-40, 40)), max_size=12)
# Epoch nanoseconds of today: what float64 cannot hold exactly.
FAR = 1_790_857_026_000_000_001


def points(chosen: Pairs) -> set[int]:
    return {point for start, end in chosen for point in range(start, end)}


def as_set(chosen: Pairs) -> iv.Intervals:
    return iv.make([start for start, _ in chosen], [end for _, end in chosen])


def members(intervals: iv.Intervals) -> set[int]:
    assert iv.total(intervals) == sum(end - start for start, end in intervals.tolist())
    assert (intervals[1:, 0] > intervals[:-1, 1]).all(), "not normal: two intervals touch or overlap"
    return points(intervals.tolist())


@given(pairs)
def test_make_is_the_union(chosen: Pairs) -> None:
    assert members(as_set(chosen)) == points(chosen)


@given(pairs, pairs)
def test_set_operations(left: Pairs, right: Pairs) -> None:
    a, b = as_set(left), as_set(right)
    assert members(iv.union(a, b)) == points(left) | points(right)
    assert members(iv.intersection(a, b)) == points(left) & points(right)
    assert members(iv.difference(a, b)) == points(left) - points(right)
    assert iv.total(a) == iv.total(iv.intersection(a, b)) + iv.total(iv.difference(a, b))


@given(pairs, pairs)
def test_operations_take_sets_that_are_not_normal(left: Pairs, right: Pairs) -> None:
    a, b = np.array(left, dtype=np.int64).reshape(-1, 2), np.array(right, dtype=np.int64).reshape(-1, 2)
    assert members(iv.intersection(a, b)) == points(left) & points(right)
    assert members(iv.difference(a, b)) == points(left) - points(right)


@given(pairs, st.integers(-45, 45), st.integers(-45, 45))
def test_complement_and_clip_split_a_window(chosen: Pairs, start: int, end: int) -> None:
    inside, outside = iv.clip(as_set(chosen), start, end), iv.complement(as_set(chosen), start, end)
    assert members(inside) == points(chosen) & set(range(start, end))
    assert members(outside) == set(range(start, end)) - points(chosen)
    assert iv.total(inside) + iv.total(outside) == max(0, end - start)


@given(pairs, pairs)
def test_covered_length_of_many_windows_at_once(chosen: Pairs, windows: Pairs) -> None:
    lengths = iv.covered_length(as_set(chosen), [s for s, _ in windows], [e for _, e in windows])
    assert lengths.tolist() == [len(points(chosen) & set(range(s, e))) for s, e in windows]


@given(pairs, st.lists(st.integers(-45, 45), max_size=8))
def test_contains(chosen: Pairs, asked: list[int]) -> None:
    assert iv.contains(as_set(chosen), asked).tolist() == [point in points(chosen) for point in asked]


@given(pairs)
def test_exact_at_epoch_nanoseconds(chosen: Pairs) -> None:
    far = [(start + FAR, end + FAR) for start, end in chosen]
    assert iv.total(as_set(far)) == iv.total(as_set(chosen))
    assert (as_set(far) - FAR).tolist() == as_set(chosen).tolist()


@given(pairs)
def test_what_overlaps_is_divided_equally(chosen: Pairs) -> None:
    lengths = iv.divide_overlaps([start for start, _ in chosen], [end for _, end in chosen])
    covering = {point: sum(start <= point < end for start, end in chosen) for point in points(chosen)}
    assert lengths.tolist() == pytest.approx(
        [sum(1 / covering[point] for point in range(start, end)) for start, end in chosen]
    )
    assert lengths.sum() == pytest.approx(iv.total(as_set(chosen)))
