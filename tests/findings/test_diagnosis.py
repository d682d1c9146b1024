"""What stands side by side in one explanation speaks of the same steps."""

from traces import TraceBuilder

from tare.findings.diagnosis import diagnose
from tare.trace.breakdown import breakdown
from tare.trace.hosttime import host_time
from tare.trace.kernel_table import kernel_table
from tare.trace.operator_table import operator_table
from tare.trace.tables import Trace
from tare.trace.windows import typical


def disturbed(device: bool) -> Trace:
    """Five steps of 100 µs with an operator of 40 and a kernel of 20, as tare records them; one is of 1000, and
    its operator and its kernel ten times as long. Between the profiler's step and ours another operator runs."""
    trace = TraceBuilder(tare_profiled={"case": "made"})
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


def test_a_step_that_is_left_out_is_left_out_of_every_table() -> None:
    trace = disturbed(device=True)
    found = diagnose(trace)
    assert found.recorded_steps == 4
    operators = {one.name: one for one in found.operators}
    (kernel,) = found.kernels
    assert "aten::before" not in operators
    product = operators["aten::mm"]
    assert (product.calls, product.host_total, product.device_self) == (4, 4 * 40_000, 4 * 20_000)
    assert (kernel.calls, kernel.total, kernel.share) == (4, 4 * 20_000, 1.0)
    parts = breakdown(typical(trace))
    assert parts is not None
    assert kernel.total == parts.active
    step = next(one for name, one in operators.items() if name.endswith("*"))
    assert (step.calls, step.host_total) == (4, 4 * 100_000)


def test_the_host_alone_is_told_alike_by_both_tables() -> None:
    trace = disturbed(device=False)
    host = host_time(typical(trace))
    assert host is not None
    times = {one.name: (one.self_time, one.calls) for one in host.operators}
    rows = {one.name: (one.host_self, one.calls) for one in diagnose(trace).operators}
    assert times["aten::mm"] == rows["aten::mm"] == (4 * 40_000, 4)


def test_the_whole_trace_is_still_to_be_had() -> None:
    trace = typical(disturbed(device=True))
    assert {one.name: one.calls for one in operator_table(trace)}["aten::mm"] == 5
    assert [one.calls for one in kernel_table(trace)] == [5]
