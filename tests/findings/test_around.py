"""What stands around an operator: its neighbours, and the way to it that goes with it."""

import pytest
from traces import TraceBuilder

from tare.findings.neighbours import Around

US = 1000


def three(before: float = 4, after: float = 4, usual: float = 4) -> tuple[Around, list[int]]:
    """Eight operators of 10 µs `usual` apart, and then one that is `before` and `after` from its neighbours."""
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
    return Around(built), rows


def test_neighbours_are_beside_each_other_and_not_within() -> None:
    around, rows = three()
    assert around.before(rows[1]) == rows[0]
    assert around.after(rows[0]) == rows[1]
    assert around.before(rows[0]) == -1
    assert around.after(rows[-1]) == -1


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [(4, 4, 4), (3, 4, 3), (4, 2, 2), (500, 4, 4), (4, 500, 4), (500, 500, 4)],
)
def test_with_an_operator_goes_one_way_of_usual_length_at_most(before: float, after: float, way: float) -> None:
    """Half a millisecond on either side is the program's own work, and stays."""
    around, rows = three(before, after)
    ((start, end),) = around.spans([[rows[8]]])
    assert end - start == (20 + way) * US


def test_operators_that_go_together_take_what_is_between_them() -> None:
    around, rows = three()
    ((start, end),) = around.spans([rows[2:5]])
    assert end - start == (3 * 10 + 2 * 4 + 4) * US
    apart = around.spans([[row] for row in rows[2:5]])
    assert sum(end - start for start, end in apart) == end - start
