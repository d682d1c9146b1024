"""The cost of a call, from known times."""

import pytest

from tare.cases.case import Case
from tare.records.call_depth import CallCost, CallDepth, CallKind, Frame, Stack, compare_costs, slope
from tare.records.record import Failure, Round, Series
from tare.stats.intervals import Interval

CASE = Case(workload="conv_chain", rung="eager", batch=1)


def measured(step_us: float, failure: Failure | None = None) -> Round:
    blocks = [round(step_us * 1000) * 10] * 20
    series = Series(kind="pipelined", steps=[10] * 20, wall_ns=blocks, at_ns=list(range(20)), stop="width")
    return Round(index=0, started="", seconds=1.0, isolation="fork", series=[series], failure=failure)


def depth(python: int, native: int, kind: CallKind = "convolution") -> CallDepth:
    python_frames, native_frames = (Frame("f", "x", "python"),) * python, (Frame("g", "x", "framework"),) * native
    stack = Stack(entry="e", kind=kind, anchored=True, python=python_frames, native=native_frames)
    return CallDepth(case=CASE, stack=stack)


def test_the_slope_excludes_what_a_step_costs_once() -> None:
    short, long = (
        [measured(50 + 8 * 2.0), measured(70 + 8 * 2.0)],
        [measured(50 + 40 * 2.0), measured(70 + 40 * 2.0)],
    )
    found = slope(short, long, 32)
    assert found is not None
    assert found.mid == pytest.approx(2e-6)
    assert found.sound


def test_a_negative_slope_is_not_sound() -> None:
    found = slope([measured(100), measured(100)], [measured(90), measured(164)], 32)
    assert found is not None
    assert not found.sound
    assert found.low < 0


def test_a_failed_round_does_not_count() -> None:
    bad = measured(1, Failure(cause="timeout", message="stopped"))
    found = slope([bad, measured(16)], [measured(1), measured(80)], 32)
    assert found is not None
    assert found.mid == pytest.approx(2e-6)
    assert slope([bad], [measured(1)], 32) is None


def cost_of(rung: str, call: float, at: CallDepth, parity: str = "same") -> CallCost:
    return CallCost(rung=rung, depth=at, call=Interval(call, call, call), parity=parity)


def test_each_rung_is_compared_with_the_cheapest_and_with_bare_frames() -> None:
    costs = [cost_of("eager", 12e-6, depth(8, 42)), cost_of("vendor", 2e-6, depth(0, 2))]
    cost = compare_costs(costs, Interval(1e-9, 1e-9, 1e-9), Interval(50e-9, 50e-9, 50e-9))
    eager, vendor = cost.rungs
    assert cost.cheapest == "vendor"
    assert eager.above is not None
    assert eager.above.mid == pytest.approx(10e-6)
    assert eager.frame is not None
    assert eager.frame.mid == pytest.approx(10e-6 / 50)
    assert eager.bare == pytest.approx(42e-9 + 8 * 50e-9)
    assert vendor.above == Interval(0, 0, 0)
    assert vendor.bare == pytest.approx(2e-9)


def test_the_frames_of_a_captured_graph_are_not_part_of_a_call() -> None:
    costs = [cost_of("cudagraph", 4e-6, depth(2, 8, "graph")), cost_of("vendor", 2e-6, depth(0, 2))]
    graph = compare_costs(costs, Interval(1e-9, 1e-9, 1e-9), Interval(50e-9, 50e-9, 50e-9)).rungs[0]
    assert graph.above is not None
    assert graph.above.mid == pytest.approx(2e-6)
    assert graph.frame is None
    assert graph.bare is None


def test_a_rung_that_computes_something_else_is_not_the_cheapest() -> None:
    costs = [cost_of("eager", 12e-6, depth(8, 42)), cost_of("wrong", 1e-6, depth(0, 2), "different")]
    cost = compare_costs(costs, None, None)
    assert cost.cheapest == "eager"
    assert cost.rungs[1].above is None
    assert cost.rungs[0].bare is None


def test_a_cost_lost_in_noise_is_not_the_cheapest_and_has_no_difference() -> None:
    lost = cost_of("torchscript", 1e-6, depth(3, 30))
    lost.call = Interval(-1e-6, 1e-6, 4e-6, sound=False)
    cost = compare_costs([cost_of("eager", 12e-6, depth(8, 42)), lost], None, None)
    assert cost.cheapest == "eager"
    assert cost.rungs[1].above is None


def test_the_noise_of_two_costs_is_in_their_difference() -> None:
    costs = [cost_of("eager", 12e-6, depth(8, 42)), cost_of("vendor", 10e-6, depth(0, 2))]
    costs[0].call, costs[1].call = Interval(9e-6, 12e-6, 15e-6), Interval(6e-6, 10e-6, 14e-6)
    above = compare_costs(costs, None, None).rungs[0].above
    assert above is not None
    assert (above.high - above.low) / 2 == pytest.approx(5e-6)
    assert above.low < 0 < above.high
