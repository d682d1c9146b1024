"""Timing of calls: an interruption loses no cost."""

from typing import Any

import pytest
from msgspec.structs import replace

from tare.cases.case import Case
from tare.cases.options import Options
from tare.commands.frames import CallTiming
from tare.records.call_depth import CallDepth
from tare.records.record import Round, Series

DEPTH = CallDepth(case=Case(workload="conv_chain", rung="eager", batch=1))


def measured(step_us: float) -> Round:
    blocks = [round(step_us * 1000) * 10] * 20
    series = Series(kind="pipelined", steps=[10] * 20, wall_ns=blocks, at_ns=list(range(20)), stop="width")
    return Round(index=0, started="", seconds=1.0, isolation="fork", series=[series])


class InterruptedExecutor:
    """Is interrupted in the second round, between the two lengths of the second rung."""

    def __init__(self) -> None:
        self.remaining = 13

    def on_stage(self, stage: str) -> None: ...

    def run_round(self, case: Case, *_: object, **__: object) -> Round:
        self.remaining -= 1
        if self.remaining < 0:
            raise KeyboardInterrupt
        return measured(50 + 2.0 * case.sizes.get("calls", case.sizes.get("depth", 0)))

    def run_program(self, _command: tuple[str, ...], case: Case, *_: object) -> Round:
        return self.run_round(case)


def test_an_interruption_loses_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.commands.frames.executable", lambda name: name)
    timing = CallTiming([replace(DEPTH, case=replace(DEPTH.case, rung=rung)) for rung in ("eager", "torchscript")])
    executor: Any = InterruptedExecutor()
    with pytest.raises(KeyboardInterrupt):
        timing.measure(executor, Options(rounds=5))
    calls = [cost.call for cost in timing.costs().rungs]
    assert [call and call.mid for call in calls] == [pytest.approx(2e-6)] * 2


def test_without_a_round_there_is_no_cost() -> None:
    costs = CallTiming([DEPTH]).costs()
    assert [cost.call for cost in costs.rungs] == [None]
    assert costs.cheapest is None
