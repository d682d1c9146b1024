"""The neighbours of an operator, and the host time that goes with operators that are removed."""

import pytest
from traces import TraceBuilder

from tare.findings.context import Neighbours

US = 1000


def row_of_operators(before: float = 4, after: float = 4, usual: float = 4) -> tuple[Neighbours, list[int]]:
    """Eight operators of 10 µs, `usual` apart, then one with gaps of `before` and `after` to its neighbours."""
    trace, at = TraceBuilder(), 0.0
    for _ in range(8):
        trace.op("aten::mul", at, at + 10)
        trace.op("aten::inner", at + 2, at + 8)
        at += 10 + usual
    at += before - usual
    trace.op("aten::item", at, at + 20)
    trace.op("aten::add", at + 20 + after, at + 30 + after)
    trace.step(-5, at + 100)
    built = trace.build()
    rows = [row for row in range(len(built.operators)) if built.operators.depth[row] == 0]
    return Neighbours(built), rows


def test_neighbours_have_the_same_parent() -> None:
    neighbours, rows = row_of_operators()
    assert neighbours.before[rows[1]] == rows[0]
    assert neighbours.after[rows[0]] == rows[1]
    assert neighbours.before[rows[0]] == -1
    assert neighbours.after[rows[-1]] == -1


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [(4, 4, 4), (3, 4, 3), (4, 2, 2), (500, 4, 4), (4, 500, 4), (500, 500, 4)],
)
def test_an_operator_takes_one_gap_of_at_most_the_usual_length_with_it(
    before: float, after: float, way: float
) -> None:
    """A gap of half a millisecond is work of the program itself, and stays."""
    neighbours, rows = row_of_operators(before, after)
    ((start, end),) = neighbours.spans([[rows[8]]])
    assert end - start == (20 + way) * US


def test_a_group_of_operators_takes_the_gaps_between_them_with_it() -> None:
    neighbours, rows = row_of_operators()
    ((start, end),) = neighbours.spans([rows[2:5]])
    assert end - start == (3 * 10 + 2 * 4 + 4) * US
    apart = neighbours.spans([[row] for row in rows[2:5]])
    assert sum(end - start for start, end in apart) == end - start
