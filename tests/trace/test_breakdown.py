"""Breakdowns of hand-made traces with known answers."""

import pytest
from traces import TraceBuilder

from tare.errors import BadInput
from tare.trace.breakdown import Breakdown, breakdown
from tare.trace.idle import explain_idle
from tare.trace.windows import drop_outlier_steps


def broken_down(builder: TraceBuilder) -> Breakdown:
    parts = breakdown(builder.build())
    assert parts is not None
    assert parts.window == parts.active + parts.movement + parts.idle
    return parts


def test_active_movement_idle_of_a_step() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.launch(5, 10, 20, 40)
    builder.copy("HtoD (Pinned -> Device)", 30, 60, builder.call("cudaMemcpyAsync", 12, 14), 1 << 20)
    builder.memset(60, 65, builder.call("cudaMemsetAsync", 15, 16))
    parts = broken_down(builder)
    assert (parts.window, parts.active, parts.movement, parts.idle) == (100_000, 25_000, 20_000, 55_000)
    assert [(c.direction, c.memory, c.count, c.bytes, c.busy, c.exposed) for c in parts.copies] == [
        ("host to device", "pinned", 1, 1 << 20, 30_000, 20_000)
    ]


def test_the_window_ends_with_the_work_launched_in_the_step() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.launch(90, 95, 120, 180)
    parts = broken_down(builder)
    assert (parts.window, parts.active, parts.idle) == (180_000, 60_000, 120_000)


def test_no_time_counts_twice_where_the_host_is_ahead() -> None:
    """The host needs 10 a step, the device 100: the second step lasts from the end of the first to its own."""
    builder = TraceBuilder()
    for i in range(3):
        builder.step(10 * i, 10 * i + 10)
        builder.launch(10 * i + 2, 10 * i + 4, 5 + 100 * i, 105 + 100 * i)
    parts = broken_down(builder)
    assert [(step.window, step.active) for step in parts.steps] == [(105_000, 100_000)] + 2 * [(100_000, 100_000)]
    assert parts.launched_before == 0
    assert parts.share("active").median == 1.0


def test_a_copy_within_the_device_is_active_time() -> None:
    builder = TraceBuilder()
    builder.step(0, 10)
    builder.copy("DtoD (Device -> Device)", 2, 6, builder.call("cudaMemcpyAsync", 0, 1), 64)
    parts = broken_down(builder)
    assert (parts.active, parts.movement) == (4000, 0)


def test_two_streams_overlap() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.launch(1, 2, 10, 50, stream=7)
    builder.launch(3, 4, 30, 70, stream=13)
    parts = broken_down(builder)
    assert (parts.active, parts.overlapped) == (60_000, 20_000)
    assert [(s.stream, s.busy) for s in parts.streams] == [(7, 40_000), (13, 40_000)]


def test_graphs_orphans_and_losses_are_counted() -> None:
    builder = TraceBuilder()
    early = builder.call("cudaLaunchKernel", -5, -4)
    builder.step(0, 100)
    builder.kernel("from before", 1, 3, early)
    graph = builder.call("cudaGraphLaunch", 5, 10)
    for i in range(4):
        builder.kernel(f"node {i}", 20 + 10 * i, 25 + 10 * i, graph)
    builder.kernel("nobody's", 70, 75, correlation=4711)
    builder.call("cudaLaunchKernel", 80, 82)
    parts = broken_down(builder)
    assert (parts.graph_launches, parts.graph_kernels) == (1, 4)
    assert parts.launching == 5000 + 2000
    # The kernel that was launched before the step is in no window.
    assert (parts.window, parts.active) == (97_000, 25_000)
    assert (parts.orphans, parts.launched_before, parts.lost_launches) == (1, 0, 1)


def test_another_device_is_listed_and_skipped() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.launch(1, 2, 10, 60)
    builder.launch(3, 4, 10, 20, device=1)
    parts = broken_down(builder)
    assert (parts.device, parts.other_devices, parts.active) == (0, [1], 50_000)


def test_launches_without_kernels_are_an_error() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.call("cudaLaunchKernel", 1, 2)
    with pytest.raises(BadInput, match="1 kernel launches and no kernel"):
        breakdown(builder.build())


def test_a_host_trace_has_no_breakdown() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op("aten::add", 1, 2)
    assert breakdown(builder.build()) is None


def test_an_outlier_step_is_skipped_with_its_work() -> None:
    builder = TraceBuilder()
    for i, (begin, length) in enumerate([(0, 90), (100, 10), (115, 10), (130, 10), (145, 10)]):
        builder.step(begin, begin + length, number=i)
        # The first step's work reaches into the second: that window begins where it ends.
        builder.launch(begin + 1, begin + 2, begin + 2, begin + (104 if i == 0 else 8))
    trace = drop_outlier_steps(builder.build())
    parts = breakdown(trace)
    idle = explain_idle(trace)
    assert parts is not None
    assert idle is not None
    assert [(step.number, step.window // 1000) for step in parts.steps] == [(1, 6), (2, 10), (3, 10), (4, 10)]
    assert parts.idle == idle.idle
