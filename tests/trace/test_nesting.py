"""What lies in what, against a stack walked row by row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.trace import nesting
from tare.trace.intervals import Integers
from tare.trace.nesting import clip_to_parents, inherit, innermost, nest, order

# Thread, start, length: few moments, so that rows touch, coincide, are empty and outlive those around them.
rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 9)), max_size=25)


def columns(chosen: list[tuple[int, int, int]]) -> tuple[Integers, Integers, Integers]:
    thread, start, length = np.array(chosen, dtype=np.int64).reshape(-1, 3).T
    ranked = order(start, start + length)
    return thread[ranked], start[ranked], (start + length)[ranked]


def walked(thread: Integers, start: Integers, end: Integers) -> tuple[list[int], list[int], list[int]]:
    """Parents, depths, and ends cut at the parent's."""
    parents, depths, ends = [], [], end.tolist()
    for row in range(len(start)):
        around = [other for other in range(row) if thread[other] == thread[row] and ends[other] > start[row]]
        parents.append(around[-1] if around else -1)
        depths.append(len(around))
        if around:
            ends[row] = min(ends[row], ends[around[-1]])
    return parents, depths, ends


@given(rows, st.booleans())
def test_parents_and_depths(chosen: list[tuple[int, int, int]], ranked: bool) -> None:
    thread, start, end = columns(chosen)
    with pytest.MonkeyPatch.context() as patch:
        if ranked:
            patch.setattr(nesting, "LONGEST_AXIS", 0)
        parent, depth = nest(thread, start, end)
    assert (parent.tolist(), depth.tolist(), clip_to_parents(end, parent).tolist()) == walked(thread, start, end)


@given(rows, st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 31)), max_size=8))
def test_innermost(chosen: list[tuple[int, int, int]], asked: list[tuple[int, int]]) -> None:
    """The last row to begin by the moment, or the first around it that has not ended by its own word."""
    thread, start, end = columns(chosen)
    parent, _ = nest(thread, start, end)
    at_thread, at = np.array(asked, dtype=np.int64).reshape(-1, 2).T
    expected = []
    for one, moment in asked:
        begun = [row for row in range(len(start)) if thread[row] == one and start[row] <= moment]
        row = begun[-1] if begun else -1
        while row >= 0 and end[row] <= moment:
            row = int(parent[row])
        expected.append(row)
    assert innermost(thread, start, end, parent, at_thread, at).tolist() == expected


def test_times_too_far_apart_for_one_line() -> None:
    """Threads times the span do not fit 64 bits."""
    start, end = np.array([-(4 * 10**18), 0, 1]), np.array([4 * 10**18, 10, 5])
    assert nest(np.array([0, 1, 1]), start, end)[0].tolist() == [-1, -1, 1]


def test_a_hundred_thousand_levels_are_no_trouble() -> None:
    start = np.arange(100_000)
    parent, depth = nest(np.zeros_like(start), start, 300_000 - start)
    assert np.array_equal(parent, start - 1)
    assert np.array_equal(depth, start)
    assert inherit(np.where(start == 0, 7, -1), parent).tolist() == [7] * len(start)


def test_inherit_takes_the_nearest() -> None:
    assert inherit(np.array([7, -1, -1, 9]), np.array([-1, 0, 1, 1])).tolist() == [7, 7, 7, 9]
