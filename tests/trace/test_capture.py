"""A stream that is captured into a graph launches nothing: neither lost launches, nor launch-bound."""

import pytest
from traces import TraceBuilder

from tare.findings.context import Context
from tare.findings.finding import find
from tare.trace.breakdown import breakdown


def captured(runtime: str) -> TraceBuilder:
    """A step that captures forty kernels, forward and backward on two threads, and then launches the graph."""
    builder = TraceBuilder()
    builder.step(0, 1000)
    builder.call(f"{runtime}StreamBeginCapture", 10, 15)
    for i in range(40):
        at = 20 + 15 * i
        builder.op("aten::mul", at, at + 12, thread=100 if i < 20 else 200)
        builder.call(f"{runtime}LaunchKernel", at + 4, at + 9, thread=100 if i < 20 else 200)
    builder.call(f"{runtime}StreamEndCapture", 650, 660)
    builder.call(f"{runtime}GraphInstantiate", 665, 800)
    graph = builder.call(f"{runtime}GraphLaunch", 810, 830)
    for i in range(40):
        builder.kernel("k", 840 + 3 * i, 843 + 3 * i, graph)
    return builder


@pytest.mark.parametrize("runtime", ["cuda", "hip"])
def test_captured_launches_are_none(runtime: str) -> None:
    trace = captured(runtime).build()
    parts = breakdown(trace)
    assert parts is not None
    assert (parts.lost_launches, parts.graph_launches, parts.graph_kernels) == (0, 1, 40)
    assert [(step.launches, step.kernels) for step in parts.steps] == [(1, 40)]
    assert "launch-bound" not in {finding.rule for finding in find(Context(trace))}


def test_launches_beside_a_capture_count() -> None:
    builder = captured("cuda")
    builder.launch(30, 32, 33, 40)
    parts = breakdown(builder.build())
    assert parts is not None
    assert [step.launches for step in parts.steps] == [2]


def test_a_trace_of_nothing_but_a_capture_has_lost_no_kernels() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.call("cudaStreamBeginCapture", 10, 15)
    builder.call("cudaLaunchKernel", 20, 25)
    builder.call("cudaStreamEndCapture", 30, 35)
    assert breakdown(builder.build()) is None
