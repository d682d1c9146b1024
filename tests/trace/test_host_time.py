"""A trace without a device: the host's time by operator, exactly."""

from hypothesis import given
from hypothesis import strategies as st
from traces import TraceBuilder

from tare.trace.host_time import OUTSIDE, host_time


def test_self_times_of_nested_operators_and_another_thread() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op("aten::linear", 10, 50)
    builder.op("aten::addmm", 20, 45)
    builder.op("aten::mul", 40, 80, thread=200)
    time = host_time(builder.build())
    assert time is not None
    times = {one.name: one.self_time // 1000 for one in time.operators}
    # The other thread counts only while the stepping one runs nothing: 50-80.
    assert times == {OUTSIDE: 30, "aten::linear": 15, "aten::addmm": 25, "aten::mul": 30}
    assert {one.name: one.calls for one in time.operators}["aten::mul"] == 1
    assert (time.computed, time.dispatch, time.outside) == (55_000, 15_000, 30_000)


spans = st.tuples(st.integers(0, 150), st.integers(0, 60), st.sampled_from([100, 200, 300]))


@given(st.lists(spans, max_size=15))
def test_self_times_add_up_to_the_steps(operators: list[tuple[int, int, int]]) -> None:
    builder = TraceBuilder()
    builder.step(0, 60)
    builder.step(70, 150)
    for i, (begin, length, thread) in enumerate(operators):
        builder.op(f"aten::op{i % 4}", begin, begin + length, thread=thread)
    time = host_time(builder.build())
    assert time is not None
    assert sum(one.self_time for one in time.operators) == time.window == 140_000
    assert time.computed + time.dispatch + time.outside == time.window


def test_an_operator_that_prepares_its_operands_still_computes() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op("autograd::engine::evaluate_function: ConvolutionBackward0", 0, 90)
    builder.op("ConvolutionBackward0", 5, 90)
    builder.op("aten::convolution_backward", 10, 85)
    builder.op("aten::empty", 12, 13)
    builder.op("aten::zero_", 14, 20)
    builder.op("aten::fill_", 15, 19)
    time = host_time(builder.build())
    assert time is not None
    # 75 of the operator, less 1 of aten::empty, which touches nothing.
    assert (time.computed, time.dispatch, time.outside) == (74_000, 16_000, 10_000)


def recurrent(layer: int, add: int = 3) -> TraceBuilder:
    """aten::lstm calls a layer of this length, which adds two biases, as torch does on a CPU."""
    builder = TraceBuilder()
    builder.step(0, 1000)
    builder.op("aten::lstm", 0, 40 + layer)
    builder.op("aten::zeros", 5, 10)
    builder.op("aten::empty", 6, 8)
    builder.op("aten::mkldnn_rnn_layer", 20, 20 + layer)
    builder.op("aten::empty", 21, 23)
    builder.op("aten::add", 24, 24 + add)
    return builder


def test_a_layer_that_also_adds_its_biases_computes() -> None:
    time = host_time(recurrent(layer=900).build())
    assert time is not None
    # The layer but for its aten::empty, and aten::zeros but for its own; aten::lstm has 35 of its own.
    assert (time.computed, time.dispatch, time.outside) == (898_000 + 3_000, 35_000 + 4_000, 60_000)


def test_the_cost_of_calls_and_time_passed_on_are_dispatch() -> None:
    # The layer keeps 25 of 30 µs, and aten::lstm 35 of 70: three calls each, of which one may take 8 times what
    # aten::empty does, 2 µs.
    short = host_time(recurrent(layer=30, add=3).build())
    assert short is not None
    assert short.computed == 3_000 + 3_000
    # It keeps 45 µs of 100 and hands on 55.
    caller = host_time(recurrent(layer=100, add=53).build())
    assert caller is not None
    assert caller.computed == 53_000 + 3_000


def test_an_empty_trace_has_no_host_time() -> None:
    assert host_time(TraceBuilder().build()) is None
