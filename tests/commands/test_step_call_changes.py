"""Which operator of a step took longer, by two profiles of it."""

from pathlib import Path

import pytest
from traces import TraceBuilder

from tare.commands.check_profiles import slowed_operators, step_call_changes
from tare.findings.context import Context
from tare.findings.python_time import grown_functions
from tare.findings.trace_diff import TraceChange, step_times_of
from tare.report.changes import call_line
from tare.trace.read import read
from tare.trace.windows import select_steps


def made(**lengths: float) -> Context:
    """A step of 1 ms on the host in which operators last so many µs; each calls another one inside."""
    trace = TraceBuilder()
    trace.step(0, 1000)
    at = 0.0
    for name, length in lengths.items():
        trace.op(f"planted::{name}", at, at + length)
        trace.op("aten::inner", at + 1, at + length - 1)
        at += length + 1
    return Context(trace.build())


def both(before: Context, now: Context) -> list[TraceChange]:
    return slowed_operators(*step_times_of([before], [now]))


def test_the_operator_that_took_most_of_it_is_named_with_all_that_it_calls() -> None:
    (one,) = both(made(work=400, steady=400), made(work=470, steady=405))
    assert (one.name, one.status, one.before_calls, one.after_calls) == ("planted::work", "slower", 1, 1)
    assert (one.before_s, one.after_s) == (400e-6, 470e-6)


def test_what_grew_little_or_came_anew_is_not_named() -> None:
    assert both(made(work=400, steady=400), made(work=415, steady=405)) == []
    assert both(made(work=400), made(work=400, more=300)) == []


def steps(works: list[float], others: list[float], gross_s: float | None = None) -> Context:
    """As tare profiles it: steps in which planted::work and aten::transpose take so many µs, and as much as both
    again is nobody's."""
    trace = TraceBuilder(tare_profiled={"case": "made"})
    at = 0.0
    for work, other in zip(works, others, strict=True):
        trace.step(at, at + 2 * (work + other))
        trace.op("planted::work", at, at + work)
        trace.op("aten::transpose", at + work, at + work + other)
        at += 2 * (work + other)
    return Context(select_steps(trace.build()), gross_s)


def test_a_disturbed_step_makes_no_operator_faster() -> None:
    """In the first profile another process took the processor in one step, within aten::transpose; in the second,
    in a slow hour, everything takes twice as long. By its share of gross, planted::work takes a third more."""
    before = steps([20, 20, 20, 20], [10, 10, 1500, 10], gross_s=60e-6)
    now = steps([60, 60, 60, 60], [20, 20, 20, 20], gross_s=70e-6)
    (one,) = step_call_changes([before], [now], slower=True)
    assert (one.name, one.status) == ("planted::work", "slower")
    assert [one.before_s, one.after_s] == pytest.approx([20e-6, 26.25e-6])


def test_what_varies_as_much_from_step_to_step_is_no_change() -> None:
    before = steps([100, 100, 100, 100], [10, 40, 12, 38])
    now = steps([100, 100, 100, 100], [40, 70, 38, 12])
    assert step_call_changes([before], [now], slower=True) == []


def test_what_differs_as_much_between_two_processes_is_no_change() -> None:
    """One process of three had a slow aten::transpose in all its steps; planted::work is slower in all three."""
    before = [steps([100] * 4, [others] * 4) for others in (50, 90, 50)]
    now = [steps([140] * 4, [others] * 4) for others in (50, 50, 90)]
    assert [one.name for one in step_call_changes(before[:1], now[2:], slower=True)] == ["aten::transpose"]
    (one,) = step_call_changes(before, now, slower=True)
    assert (one.name, one.status) == ("planted::work", "slower")


def test_of_a_slower_step_what_takes_longer_comes_first() -> None:
    def context(quick: float, slow: float) -> Context:
        trace = TraceBuilder()
        trace.step(0, 1000)
        trace.op("aten::a", 0, 4)
        trace.launch(1, 2, 3, 3 + quick, "quick")
        trace.op("aten::b", 400, 404)
        trace.launch(401, 402, 403, 403 + slow, "slow")
        return Context(trace.build())

    before, now = context(quick=300, slow=100), context(quick=100, slow=200)
    assert [one.name for one in step_call_changes([before], [now], slower=True)] == [
        "aten::b",
        "slow",
        "quick",
        "aten::a",
    ]
    assert [one.name for one in step_call_changes([before], [now], slower=False)] == [
        "quick",
        "slow",
        "aten::a",
        "aten::b",
    ]


def test_what_is_little_of_the_steps_own_change_is_not_listed() -> None:
    """The step takes 1 ms more, all of it outside operators, and a kernel 20 µs: that is not why, though it is a
    change."""

    def context(kernel: float, length: float) -> Context:
        trace = TraceBuilder()
        trace.step(0, length)
        trace.op("aten::a", 0, 4)
        trace.launch(1, 2, 3, 3 + kernel, "kernel")
        return Context(trace.build())

    def names(now: Context) -> list[str]:
        return [change.name for change in step_call_changes([context(100, 1000)], [now], slower=True)]

    assert names(context(120, 2000)) == ["host time outside operators"]
    assert names(context(120, 1100)) == ["host time outside operators", "kernel", "aten::a"]


def launching(steady: float, work: float) -> Context:
    """A step of 1 ms in which two operators of a user launch, by the same operator inside, the same kernel."""
    trace = TraceBuilder()
    trace.step(0, 1000)
    for name, at, length in (("steady", 0.0, steady), ("work", 500.0, work)):
        trace.op(f"planted::{name}", at, at + 9)
        trace.op("aten::sin_", at + 1, at + 8)
        trace.launch(at + 2, at + 3, at + 4, at + 4 + length, "sin")
    return Context(trace.build())


def test_on_a_gpu_the_operator_is_named_by_all_that_it_launches() -> None:
    """3 % of the step, by a kernel that others launch as well and that is no tenth slower."""
    found = step_call_changes([launching(480, 480)], [launching(480, 510)], slower=True)
    assert [(one.kind, one.name, one.status) for one in found] == [
        ("operator", "planted::work", "slower"), ("kernel", "sin", "slower"), ("operator", "aten::sin_", "slower"),
    ]  # fmt: skip
    assert [found[0].before_s, found[0].after_s] == pytest.approx([480e-6, 510e-6])
    assert [found[1].before_s, found[1].after_s] == pytest.approx([960e-6, 990e-6])
    assert step_call_changes([launching(480, 480)], [launching(480, 485)], slower=True) == []
    assert step_call_changes([launching(480, 480)], [launching(485, 480)], slower=False) == []


def test_three_per_cent_in_one_operator_on_an_h200_are_named() -> None:
    """Recorded there, by the check of results/guard/real-h200.json: 106 units of work instead of 100 in one of two
    operators, with its figures of gross."""
    folder = Path(__file__).parent / "recorded"
    before, now = (
        Context(select_steps(read(folder / f"planted-operator-{side}.json.gz")), gross_s)
        for side, gross_s in (("before", 3.2758e-3), ("now", 3.3527e-3))
    )
    found = step_call_changes([before], [now], slower=True)
    assert (found[0].name, found[0].status) == ("planted::work", "slower")
    assert found[0].before_s
    assert found[0].after_s
    assert found[0].after_s / found[0].before_s == pytest.approx(1.06, abs=0.01)
    assert [one.name for one in found if one.kind == "operator"] == ["planted::work", "aten::sin_"]
    assert step_call_changes([before], [before], slower=True) == []


def sleeping(sleep: float, gross_s: float, inflated: float = 2.0) -> Context:
    """As the profiler sees a step of 100 µs of operators and so many µs of sleep in the user's forward: it makes
    the operators `inflated` times as long, and leaves the sleep alone."""
    trace = TraceBuilder(tare_profiled={"case": "made"})
    work, at = 100 * inflated, 0.0
    for _ in range(4):
        end = at + work + 10 + sleep
        trace.step(at, end)
        trace.frame("my.py(8): forward", at, end)
        trace.op("aten::mm", at, at + work)
        if sleep:
            trace.frame("<built-in function sleep>", at + work, at + work + sleep)
        at = end
    return Context(select_steps(trace.build()), gross_s)


def test_a_sleep_is_called_host_time_and_no_operator_became_faster_or_slower() -> None:
    """By its share of gross, aten::mm takes 190 µs where it took 105: the profiler makes the short step twice as
    long, and the long one hardly longer."""
    before, now = sleeping(0, 110e-6), sleeping(2000, 2110e-6)
    (change,) = step_call_changes([before], [now], slower=True)
    assert (change.kind, change.name, change.status) == ("python", "host time outside operators", "slower")
    assert change.before_s is not None
    assert change.after_s is not None
    assert change.after_s - change.before_s == pytest.approx(1.92e-3, rel=0.01)
    assert call_line(change).startswith("host time outside operators grew by 1.9 ms")
    assert grown_functions(before, now) == ["my.py(8): forward, <built-in function sleep>"]


def test_time_outside_operators_that_did_not_grow_is_not_named() -> None:
    assert step_call_changes([sleeping(2000, 2110e-6)], [sleeping(2000, 2110e-6)], slower=True) == []
    (change,) = step_call_changes([sleeping(100, 210e-6)], [sleeping(100, 410e-6, inflated=6.0)], slower=True)
    assert (change.kind, change.name) == ("operator", "aten::mm")
