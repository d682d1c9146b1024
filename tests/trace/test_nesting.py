"""Nesting and timelines, against a stack walked row by row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.trace import nesting
from tare.trace.intervals import Integers
from tare.trace.nesting import NO_OWNER, clip_to_parents, flatten, inherit, innermost, nest, order

# Thread, start, length: few moments, so that rows touch, coincide, are empty and outlive those around them.
rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 9)), max_size=25)


def columns(chosen: list[tuple[int, int, int]]) -> tuple[Integers, Integers, Integers]:
    thread, start, length = np.array(chosen, dtype=np.int64).reshape(-1, 3).T
    ranked = order(start, start + length)
    return thread[ranked], start[ranked], (start + length)[ranked]


def walked(thread: Integers, start: Integers, end: Integers) -> tuple[list[int], list[int], list[int]]:
    """Parents, depths, and ends clipped to the parent."""
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
    """The last row that began by the moment, or its nearest ancestor that has not ended."""
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


def test_times_too_far_apart_for_one_axis() -> None:
    """Threads times the span do not fit 64 bits."""
    start, end = np.array([-(4 * 10**18), 0, 1]), np.array([4 * 10**18, 10, 5])
    assert nest(np.array([0, 1, 1]), start, end)[0].tolist() == [-1, -1, 1]


def test_a_hundred_thousand_levels() -> None:
    start = np.arange(100_000)
    parent, depth = nest(np.zeros_like(start), start, 300_000 - start)
    assert np.array_equal(parent, start - 1)
    assert np.array_equal(depth, start)
    assert inherit(np.where(start == 0, 7, -1), parent).tolist() == [7] * len(start)


def test_inherit_takes_the_nearest() -> None:
    assert inherit(np.array([7, -1, -1, 9]), np.array([-1, 0, 1, 1])).tolist() == [7, 7, 7, 9]


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 15)), max_size=12)


def by_hand(starts: list[int], ends: list[int], moment: int) -> int:
    """Rows are in order. A row that starts inside another is clipped to it; the last one is innermost."""
    stack: list[tuple[int, int]] = []
    owner = NO_OWNER
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        while stack and stack[-1][0] <= start:
            stack.pop()
        end = min(end, stack[-1][0]) if stack else end
        stack.append((end, row))
        if start <= moment < end:
            owner = row
    return owner


@given(spans)
def test_a_timeline_gives_the_innermost_row(chosen: list[tuple[int, int]]) -> None:
    start = np.array([begin for begin, _ in chosen], dtype=np.int64)
    end = start + np.array([length for _, length in chosen], dtype=np.int64)
    rows = order(start, end)
    start, end = start[rows], end[rows]
    parent, _ = nest(np.zeros(len(start), dtype=np.int64), start, end)
    line = flatten(np.arange(len(start)), start, clip_to_parents(end, parent), parent)
    for moment in range(46):
        owner = int(line.owner[np.searchsorted(line.start, moment, side="right") - 1])
        assert owner == by_hand(start.tolist(), end.tolist(), moment)


@given(spans, spans)
def test_cut_lengths_add_up(chosen: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
    start = np.array([begin for begin, _ in chosen], dtype=np.int64)
    end = start + np.array([length for _, length in chosen], dtype=np.int64)
    rows = order(start, end)
    start, end = start[rows], end[rows]
    parent, _ = nest(np.zeros_like(start), start, end)
    line = flatten(np.arange(len(start)), start, clip_to_parents(end, parent), parent)
    begin = np.array([at for at, _ in wanted], dtype=np.int64)
    finish = begin + np.array([length for _, length in wanted], dtype=np.int64)
    piece, from_, to, _ = line.cut(begin, finish)
    lengths = np.zeros(len(begin), dtype=np.int64)
    np.add.at(lengths, piece, to - from_)
    assert lengths.tolist() == (finish - begin).tolist()
