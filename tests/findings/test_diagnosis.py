"""All parts of one explanation cover the same steps."""

from traces import TraceBuilder

from tare.findings.diagnosis import diagnose
from tare.trace.breakdown import breakdown
from tare.trace.host_time import host_time
from tare.trace.kernel_table import kernel_table
from tare.trace.operator_table import operator_table
from tare.trace.tables import Trace
from tare.trace.windows import drop_outlier_steps


def with_an_outlier(device: bool) -> Trace:
    """Five steps of 100 µs with an operator of 40 and a kernel of 20, as tare records them; one of the steps is
    ten times as long. Between the profiler's mark of a step and tare's another operator runs."""
    trace = TraceBuilder(tare_profiled={"case": "synthetic"})
    at = 0.0
    for number, slower in enumerate((1, 1, 10, 1, 1)):
        trace.event("user_annotation", f"ProfilerStep#{number}", at, at + 102 * slower)
        trace.op("aten::before", at + 0.5, at + 0.9)
        trace.event("user_annotation", f"tare::step#{number}", at + 1, at + 1 + 100 * slower)
        trace.op("aten::mm", at + 11, at + 11 + 40 * slower)
        if device:
            trace.launch(at + 12, at + 13, at + 20, at + 20 + 20 * slower)
        at += 105 * slower
    return trace.build()


def test_an_outlier_step_is_in_none_of_the_tables() -> None:
    trace = with_an_outlier(device=True)
    diagnosis = diagnose(trace)
    assert diagnosis.recorded_steps == 4
    operators = {one.name: one for one in diagnosis.operators}
    (kernel,) = diagnosis.kernels
    assert "aten::before" not in operators
    product = operators["aten::mm"]
    assert (product.calls, product.host_total, product.device_self) == (4, 4 * 40_000, 4 * 20_000)
    assert (kernel.calls, kernel.total, kernel.share) == (4, 4 * 20_000, 1.0)
    parts = breakdown(drop_outlier_steps(trace))
    assert parts is not None
    assert kernel.total == parts.active
    step = next(one for name, one in operators.items() if name.endswith("*"))
    assert (step.calls, step.host_total) == (4, 4 * 100_000)


def test_both_tables_of_host_time_agree_without_a_device() -> None:
    trace = with_an_outlier(device=False)
    host = host_time(drop_outlier_steps(trace))
    assert host is not None
    times = {one.name: (one.self_time, one.calls) for one in host.operators}
    rows = {one.name: (one.host_self, one.calls) for one in diagnose(trace).operators}
    assert times["aten::mm"] == rows["aten::mm"] == (4 * 40_000, 4)


def test_tables_of_all_steps_are_available() -> None:
    trace = drop_outlier_steps(with_an_outlier(device=True))
    assert {one.name: one.calls for one in operator_table(trace)}["aten::mm"] == 5
    assert [one.calls for one in kernel_table(trace)] == [5]
