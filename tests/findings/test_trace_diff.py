"""The differences of two traces, on traces with known differences."""

import pytest
from traces import RECORDED, TraceBuilder

from tare.findings.context import Context
from tare.findings.trace_diff import TraceChange, diff_traces
from tare.trace.explanation import About, explain
from tare.trace.kernel_table import kernel_table
from tare.trace.metadata import recorded_gross
from tare.trace.operator_table import operator_table
from tare.trace.read import read
from tare.trace.tables import Trace


def kernels_of(**kernels: tuple[int, float]) -> Context:
    """A step in which each kernel is launched (count, µs) by an operator of its name."""
    trace = TraceBuilder()
    trace.step(0, 1000)
    at = 0.0
    for name, (count, length) in kernels.items():
        for _ in range(count):
            trace.op(f"aten::{name}", at, at + 4)
            trace.launch(at + 1, at + 2, at + 3, at + 3 + length, name)
            at += length + 10
    return Context(trace.build())


def by_name(changes: list[TraceChange]) -> dict[str, TraceChange]:
    return {change.name: change for change in changes}


def test_appeared_vanished_slower_faster_and_unchanged() -> None:
    before = kernels_of(old=(2, 10), same=(3, 20), slow=(1, 50), fast=(1, 80), often=(1, 30))
    after = kernels_of(new=(1, 15), same=(3, 20.5), slow=(1, 90), fast=(1, 40), often=(3, 30))
    diff = diff_traces(before, after)
    kernels = by_name(diff.kernels)
    assert {name: change.status for name, change in kernels.items()} == {
        "old": "vanished", "new": "appeared", "slow": "slower", "fast": "faster", "often": "more calls",
    }  # fmt: skip
    assert kernels["slow"].difference_s == pytest.approx(40e-6)
    assert (kernels["often"].before_calls, kernels["often"].after_calls) == (1, 3)
    assert diff.kernels[0].name == "often"
    operators = by_name(diff.operators)
    assert operators["aten::slow"].status == "slower"
    assert operators["aten::slow"].clock == "device"
    assert diff.before_device_s == pytest.approx(240e-6)


def test_a_trace_does_not_differ_from_itself() -> None:
    context = Context(read(RECORDED / "mlp-train-eager-stack.json.gz"))
    diff = diff_traces(context, context)
    assert (diff.kernels, diff.operators, diff.findings) == ([], [], [])


def test_a_graph_launches_the_kernels_of_the_eager_step() -> None:
    """ResNet-50 eager and as a CUDA graph: no kernel differs, and all operators have vanished."""
    eager, graph = (
        Context(read(RECORDED / f"resnet50-infer-b1-{rung}.json.gz")) for rung in ("eager", "cudagraph")
    )
    diff = diff_traces(eager, graph)
    assert diff.kernels == []
    assert {change.status for change in diff.operators} == {"vanished"}


def test_compiling_replaces_kernels_by_fused_ones() -> None:
    eager, compiled = (
        Context(read(RECORDED / f"mlp-train-{rung}.json.gz")) for rung in ("eager-stack", "compile")
    )
    appeared = {change.name for change in diff_traces(eager, compiled).kernels if change.status == "appeared"}
    assert "triton_poi_fused_addmm_relu_0" in appeared


@pytest.mark.parametrize(
    "name", ["resnet50-infer-b1-cudagraph", "inefficient-parameter-ping-pong", "mlp-train-compile"]
)
def test_diff_shows_the_step_of_explain_and_its_parts_fit_into_it(name: str) -> None:
    trace = read(RECORDED / f"{name}.json.gz")
    gross = recorded_gross(trace)
    assert gross is not None
    shown = explain(trace, About(title=name, gross=gross)).waterfall
    empty = TraceBuilder()
    empty.step(0, 1)
    diff = diff_traces(Context(trace, gross / 1e9), Context(empty.build(), 1e-6))
    assert diff.before_step_s == shown.gross / 1e9 == gross / 1e9
    assert diff.before_device_s == shown.net / 1e9
    assert not diff.profiled
    host = [one.before_s for one in diff.operators if one.clock == "host"]
    assert sum(host) <= diff.before_step_s
    assert sum(one.before_s for one in diff.kernels) <= diff.before_device_s * (1 + 1e-9)


def test_host_times_are_shares_of_gross_on_a_cpu() -> None:
    """In a recorded step of 200 µs an operator takes 50 or 80. With a gross of 100 µs these are 25 and 40. Where
    gross is unknown on one side, both sides show recorded times."""

    def context(length: float, gross_s: float | None) -> Context:
        trace = TraceBuilder()
        trace.step(0, 200)
        trace.op("aten::a", 0, length)
        return Context(trace.build(), gross_s)

    diff = diff_traces(context(50, 100e-6), context(80, 100e-6))
    assert (diff.before_step_s, diff.profiled, diff.has_device) == (100e-6, False, False)
    (change,) = diff.operators
    assert (change.status, change.clock) == ("slower", "host")
    assert [change.before_s, change.after_s] == pytest.approx([25e-6, 40e-6])
    diff = diff_traces(context(50, 100e-6), context(80, None))
    assert (diff.before_step_s, diff.profiled) == (200e-6, True)
    assert diff.operators[0].before_s == pytest.approx(50e-6)


@pytest.mark.parametrize("launched", ["before the trace", "before the first step"])
def test_work_from_before_the_steps_is_in_no_figure(launched: str) -> None:
    """An old kernel runs for 60 us of the first of two steps, each with a kernel of 20 us. Its call was not
    recorded, or came before the steps. `explain`, the tables and `diff` leave it out."""

    def trace(with_old: bool) -> Trace:
        builder = TraceBuilder()
        if with_old and launched == "before the first step":
            builder.op("aten::old", -30, -20)
            builder.launch(-28, -25, -10, 60, "old")
        elif with_old:
            builder.kernel("old", -10, 60, correlation=12345)
        for at in (0, 100):
            builder.step(at, at + 100)
            builder.op("aten::new", at + 5, at + 15)
            builder.launch(at + 8, at + 12, at + 62, at + 82, "new")
        return builder.build()

    was, now = trace(with_old=True), trace(with_old=False)
    diff = diff_traces(Context(was), Context(now))
    assert (diff.kernels, diff.operators) == ([], [])
    assert diff.before_device_s == diff.after_device_s == pytest.approx(20e-6)
    shown = explain(was, About(title="was"))
    assert shown.breakdown is not None
    assert [step.active for step in shown.breakdown.steps] == [20_000, 20_000]
    assert diff.before_step_s == shown.waterfall.gross / 1e9
    assert [(row.name, row.calls) for row in kernel_table(was, counted=True)] == [("new", 2)]
    by_name = {row.name: row for row in operator_table(was, counted=True)}
    assert "aten::old" not in by_name
    assert by_name["aten::new"].device_total == 40_000
    # The other way around nothing has appeared.
    assert diff_traces(Context(now), Context(was)).kernels == []
