"""What depth costs, from times that are known."""

from typing import Any

import pytest
from msgspec.structs import replace

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.call_cost import Price, Timing, _slope, compare_prices
from tare.execute.call_stacks import Depth
from tare.measure.call_stack import Frame, Kind, Stack
from tare.records.record import Failure, Round, Series
from tare.stats.intervals import Interval

CASE = Case(workload="conv_chain", rung="eager", batch=1)


def measured(step_us: float, failure: Failure | None = None) -> Round:
    blocks = [round(step_us * 1000) * 10] * 20
    series = Series(kind="pipelined", steps=[10] * 20, wall_ns=blocks, at_ns=list(range(20)), stop="width")
    return Round(index=0, started="", seconds=1.0, isolation="fork", series=[series], failure=failure)


def depth(python: int, native: int, kind: Kind = "convolution") -> Depth:
    frames = (Frame("f", "x", "python"),) * python, (Frame("g", "x", "framework"),) * native
    return Depth(case=CASE, stack=Stack(entry="e", kind=kind, anchored=True, python=frames[0], native=frames[1]))


def test_the_slope_leaves_out_what_a_step_costs_once() -> None:
    short, long = (
        [measured(50 + 8 * 2.0), measured(70 + 8 * 2.0)],
        [measured(50 + 40 * 2.0), measured(70 + 40 * 2.0)],
    )
    found = _slope(short, long, 32)
    assert found is not None
    assert found.mid == pytest.approx(2e-6)
    assert found.sound


def test_noise_that_turns_a_slope_negative_is_not_called_sound() -> None:
    found = _slope([measured(100), measured(100)], [measured(90), measured(164)], 32)
    assert found is not None
    assert not found.sound
    assert found.low < 0


def test_a_round_that_failed_does_not_count() -> None:
    bad = measured(1, Failure(cause="timeout", message="stopped"))
    found = _slope([bad, measured(16)], [measured(1), measured(80)], 32)
    assert found is not None
    assert found.mid == pytest.approx(2e-6)
    assert _slope([bad], [measured(1)], 32) is None


def price(rung: str, call: float, at: Depth, parity: str = "same") -> Price:
    return Price(rung=rung, depth=at, call=Interval(call, call, call), parity=parity)


def test_each_rung_is_compared_with_the_cheapest_and_with_its_frames_alone() -> None:
    prices = [price("eager", 12e-6, depth(8, 42)), price("vendor", 2e-6, depth(0, 2))]
    cost = compare_prices(prices, Interval(1e-9, 1e-9, 1e-9), Interval(50e-9, 50e-9, 50e-9))
    eager, vendor = cost.prices
    assert cost.cheapest == "vendor"
    assert eager.above is not None
    assert eager.above.mid == pytest.approx(10e-6)
    assert eager.frame is not None
    assert eager.frame.mid == pytest.approx(10e-6 / 50)
    assert eager.bare == pytest.approx(42e-9 + 8 * 50e-9)
    assert vendor.above == Interval(0, 0, 0)
    assert vendor.bare == pytest.approx(2e-9)


def test_a_graph_s_frames_are_passed_once_a_step_and_have_no_part_in_the_price_of_a_call() -> None:
    prices = [price("cudagraph", 4e-6, depth(2, 8, "graph")), price("vendor", 2e-6, depth(0, 2))]
    graph = compare_prices(prices, Interval(1e-9, 1e-9, 1e-9), Interval(50e-9, 50e-9, 50e-9)).prices[0]
    assert graph.above is not None
    assert graph.above.mid == pytest.approx(2e-6)
    assert graph.frame is None
    assert graph.bare is None


def test_a_rung_that_computes_something_else_is_no_roofline() -> None:
    prices = [price("eager", 12e-6, depth(8, 42)), price("wrong", 1e-6, depth(0, 2), "different")]
    cost = compare_prices(prices, None, None)
    assert cost.cheapest == "eager"
    assert cost.prices[1].above is None
    assert cost.prices[0].bare is None


def test_a_price_lost_in_noise_is_no_roofline_and_has_none() -> None:
    lost = price("torchscript", 1e-6, depth(3, 30))
    lost.call = Interval(-1e-6, 1e-6, 4e-6, sound=False)
    cost = compare_prices([price("eager", 12e-6, depth(8, 42)), lost], None, None)
    assert cost.cheapest == "eager"
    assert cost.prices[1].above is None


def test_two_noisy_prices_differ_by_no_more_than_their_noise_allows() -> None:
    prices = [price("eager", 12e-6, depth(8, 42)), price("vendor", 10e-6, depth(0, 2))]
    prices[0].call, prices[1].call = Interval(9e-6, 12e-6, 15e-6), Interval(6e-6, 10e-6, 14e-6)
    above = compare_prices(prices, None, None).prices[0].above
    assert above is not None
    assert (above.high - above.low) / 2 == pytest.approx(5e-6)
    assert above.low < 0 < above.high


class Interrupted:
    """An executor that is interrupted in the second round, between the two lengths of the second rung."""

    def __init__(self) -> None:
        self.left = 13

    def say(self, stage: str) -> None: ...

    def run_round(self, case: Case, *_: object, **__: object) -> Round:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return measured(50 + 2.0 * case.sizes.get("calls", case.sizes.get("depth", 0)))

    def run_program(self, _command: tuple[str, ...], case: Case, *_: object) -> Round:
        return self.run_round(case)


def test_an_interruption_loses_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.execute.call_cost.executable", lambda name: name)
    rungs = [replace(depth(8, 42), case=replace(CASE, rung=rung)) for rung in ("eager", "torchscript")]
    timing = Timing(rungs)
    executor: Any = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        timing.measure(executor, Options(rounds=5))
    calls = [one.call for one in timing.cost().prices]
    assert [call and call.mid for call in calls] == [pytest.approx(2e-6)] * 2


def test_a_price_of_nothing_measured_is_not_there() -> None:
    cost = Timing([depth(8, 42)]).cost()
    assert [one.call for one in cost.prices] == [None]
    assert cost.cheapest is None
