"""Nesting and timelines, against a stack walked row by row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tare.trace.intervals import Integers
from tare.trace.spans import NO_OWNER, NestedSpans, nested, order

# Thread, start, length: few moments, so that rows touch, coincide, are empty and outlive those around them.
rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 9)), max_size=25)
spans = st.lists(st.tuples(st.just(0), st.integers(0, 30), st.integers(0, 15)), max_size=12)


def nest(chosen: list[tuple[int, int, int]] | Integers) -> NestedSpans:
    """Spans of these threads, starts and lengths."""
    thread, start, length = np.array(chosen, dtype=np.int64).reshape(-1, 3).T
    ranked = order(start, start + length)
    columns = {"thread": thread, "start": start, "end": start + length, "name": np.zeros_like(start)}
    return NestedSpans(**nested({name: column[ranked] for name, column in columns.items()}))


def walked(table: NestedSpans) -> tuple[list[int], list[int], list[int]]:
    """Parents, depths, and ends clipped to the parent."""
    thread, start, ends = table.thread, table.start, table.end.tolist()
    parents, depths = [], []
    for row in range(len(start)):
        around = [other for other in range(row) if thread[other] == thread[row] and ends[other] > start[row]]
        parents.append(around[-1] if around else -1)
        depths.append(len(around))
        if around:
            ends[row] = min(ends[row], ends[around[-1]])
    return parents, depths, ends


@given(rows)
def test_parents_and_depths(chosen: list[tuple[int, int, int]]) -> None:
    table = nest(chosen)
    assert (table.parent.tolist(), table.depth.tolist(), table.clipped_end.tolist()) == walked(table)


@given(rows, st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 31)), max_size=8))
def test_innermost(chosen: list[tuple[int, int, int]], asked: list[tuple[int, int]]) -> None:
    """The last row that began by the moment, or its nearest ancestor that has not ended."""
    table = nest(chosen)
    at_thread, at = np.array(asked, dtype=np.int64).reshape(-1, 2).T
    expected = []
    for thread, moment in asked:
        begun = [row for row in range(len(table)) if table.thread[row] == thread and table.start[row] <= moment]
        row = begun[-1] if begun else -1
        while row >= 0 and table.end[row] <= moment:
            row = int(table.parent[row])
        expected.append(row)
    assert table.innermost(at_thread, at).tolist() == expected


def test_times_that_are_far_apart() -> None:
    table = nest([(0, -(4 * 10**18), 8 * 10**18), (1, 0, 10), (1, 1, 4)])
    assert table.parent.tolist() == [-1, -1, 1]


def test_a_hundred_thousand_levels() -> None:
    start = np.arange(100_000)
    table = nest(np.stack([np.zeros_like(start), start, 300_000 - 2 * start], axis=1))
    assert np.array_equal(table.parent, start - 1)
    assert np.array_equal(table.depth, start)
    assert table.inherit(np.where(start == 0, 7, -1)).tolist() == [7] * len(start)


def test_inherit_takes_the_nearest() -> None:
    table = nest([(0, 0, 100), (0, 10, 80), (0, 20, 10), (0, 40, 10)])
    assert table.parent.tolist() == [-1, 0, 1, 1]
    assert table.inherit(np.array([7, -1, -1, 9])).tolist() == [7, 7, 7, 9]


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
def test_a_timeline_gives_the_innermost_row(chosen: list[tuple[int, int, int]]) -> None:
    table = nest(chosen)
    timeline = table.timeline(0)
    for moment in range(46):
        owner = int(timeline.owner[np.searchsorted(timeline.start, moment, side="right") - 1])
        assert owner == by_hand(table.start.tolist(), table.end.tolist(), moment)


@given(spans, spans)
def test_cut_lengths_add_up(chosen: list[tuple[int, int, int]], cut: list[tuple[int, int, int]]) -> None:
    wanted = nest(cut)
    span, start, end, _ = nest(chosen).timeline(0).cut(wanted.start, wanted.end)
    lengths = np.zeros(len(wanted), dtype=np.int64)
    np.add.at(lengths, span, end - start)
    assert lengths.tolist() == wanted.duration.tolist()
