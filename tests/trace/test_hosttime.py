"""A trace without a device: the host's time by operator, exactly."""

from hypothesis import given
from hypothesis import strategies as st
from traces import TraceBuilder

from tare.trace.hosttime import OUTSIDE, host_time


def test_self_times_of_nested_operators_and_another_thread() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op("aten::linear", 10, 50)
    builder.op("aten::addmm", 20, 45)
    builder.op("aten::mul", 40, 80, thread=200)
    found = host_time(builder.build())
    assert found is not None
    times = {one.name: one.self_time // 1000 for one in found.operators}
    # The other thread counts only while the stepping one runs nothing: 50-80.
    assert times == {OUTSIDE: 30, "aten::linear": 15, "aten::addmm": 25, "aten::mul": 30}
    assert {one.name: one.calls for one in found.operators}["aten::mul"] == 1
    assert (found.computed, found.around, found.outside) == (55_000, 15_000, 30_000)


spans = st.tuples(st.integers(0, 150), st.integers(0, 60), st.sampled_from([100, 200, 300]))


@given(st.lists(spans, max_size=15))
def test_self_times_add_up_to_the_steps(operators: list[tuple[int, int, int]]) -> None:
    builder = TraceBuilder()
    builder.step(0, 60)
    builder.step(70, 150)
    for i, (begin, length, thread) in enumerate(operators):
        builder.op(f"aten::op{i % 4}", begin, begin + length, thread=thread)
    found = host_time(builder.build())
    assert found is not None
    assert sum(one.self_time for one in found.operators) == found.window == 140_000
    assert found.computed + found.around + found.outside == found.window


def test_an_operator_that_prepares_its_operands_still_computes() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op("autograd::engine::evaluate_function: ConvolutionBackward0", 0, 90)
    builder.op("ConvolutionBackward0", 5, 90)
    builder.op("aten::convolution_backward", 10, 85)
    builder.op("aten::empty", 12, 13)
    builder.op("aten::zero_", 14, 20)
    builder.op("aten::fill_", 15, 19)
    found = host_time(builder.build())
    assert found is not None
    # 75 of the operator, less 1 of aten::empty, which touches nothing.
    assert (found.computed, found.around, found.outside) == (74_000, 16_000, 10_000)


def test_an_empty_trace_has_nothing_to_say() -> None:
    assert host_time(TraceBuilder().build()) is None
