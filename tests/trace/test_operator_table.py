"""The table of operators agrees with torch.profiler's own on the same trace."""

from pathlib import Path
from typing import Any

import pytest
from traces import TraceBuilder

from tare.trace.operator_table import Operator, operator_table
from tare.trace.read import read


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Operator]]:
    """A training step profiled now: torch's table, and tare's table of the exported file."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    x = torch.randn(16, 32)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as p:
        for _ in range(2):
            with record_function("my part"):
                model(x).sum().backward()
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    p.export_chrome_trace(str(path))
    return p.key_averages(), {row.name: row for row in operator_table(read(path))}


def test_every_operator_has_the_calls_and_times_of_key_averages(recorded: tuple[Any, dict[str, Operator]]) -> None:
    averages, ours = recorded
    assert len(averages) > 15
    assert {row.key for row in averages} == set(ours)
    for row in averages:
        mine = ours[row.key]
        assert mine.calls == row.count, row.key
        # torch keeps nanoseconds and gives microseconds; the file has three decimals of them.
        assert mine.host_total / 1e3 == pytest.approx(row.cpu_time_total, abs=0.002 * row.count), row.key
        assert mine.host_self / 1e3 == pytest.approx(row.self_cpu_time_total, abs=0.02 * row.count), row.key


def test_memory_is_that_of_key_averages(recorded: tuple[Any, dict[str, Operator]]) -> None:
    """Old gradients are released in the very instant in which AccumulateGrad begins, and torch's own table, which
    compares floats, counts them now to it and now to what is around it: those two rows are left out."""
    averages, ours = recorded
    assert any(row.self_cpu_memory_usage for row in averages)
    for row in averages:
        if row.key != "[memory]" and "AccumulateGrad" not in row.key:
            assert ours[row.key].host_memory_total == row.cpu_memory_usage, row.key
            assert ours[row.key].host_memory_self == row.self_cpu_memory_usage, row.key


def made() -> TraceBuilder:
    """An operator of 100 µs around one of 60, which launches a kernel of 30 µs and one of 20."""
    trace = TraceBuilder()
    trace.op("aten::outer", 0, 100, **{"Input Dims": [[2, 3]]})
    trace.op("aten::inner", 10, 70, **{"Input Dims": [[2, 3]]})
    trace.launch(20, 30, 40, 70)
    trace.launch(40, 50, 70, 90)
    trace.op("aten::inner", 200, 210, **{"Input Dims": [[4]]})
    trace.launch(300, 305, 310, 315)
    return trace


def test_times_of_a_known_trace() -> None:
    table = {row.name: row for row in operator_table(made().build())}
    outer, inner, launch = table["aten::outer"], table["aten::inner"], table["cudaLaunchKernel"]
    assert (outer.host_total, outer.host_self) == (100_000, 40_000)
    assert (outer.device_total, outer.device_self) == (50_000, 0)
    assert (inner.calls, inner.host_total, inner.host_self) == (2, 70_000, 50_000)
    assert (inner.device_total, inner.device_self) == (50_000, 50_000)
    # What was launched outside any operator stays with the call.
    assert (launch.calls, launch.host_self, launch.device_self) == (3, 25_000, 5_000)


def test_a_trace_without_operators_has_an_empty_table(tmp_path: Path) -> None:
    assert operator_table(read(TraceBuilder().write(tmp_path / "empty.json"))) == []
