"""The innermost event at every moment, against a stack walked moment by moment."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tare.trace.nesting import NO_OWNER, clip_to_parents, flatten, nest, order

spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 15)), max_size=12)


def by_hand(starts: list[int], ends: list[int], moment: int) -> int:
    """Rows are in order; one that starts within another is cut at its end; the last that holds is innermost."""
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
def test_owners(chosen: list[tuple[int, int]]) -> None:
    start = np.array([begin for begin, _ in chosen], dtype=np.int64)
    end = start + np.array([length for _, length in chosen], dtype=np.int64)
    rows = order(start, end)
    start, end = start[rows], end[rows]
    parent, _ = nest(np.zeros(len(start), dtype=np.int64), start, end)
    line = flatten(np.arange(len(start)), start, clip_to_parents(end, parent), parent)
    for moment in range(46):
        found = int(line.owner[np.searchsorted(line.start, moment, side="right") - 1])
        assert found == by_hand(start.tolist(), end.tolist(), moment)


@given(spans, spans)
def test_cutting_loses_nothing(chosen: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
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
