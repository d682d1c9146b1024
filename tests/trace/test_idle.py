"""Why idle: hand-made gaps whose causes are known, and exact sums on random traces."""

from hypothesis import given
from hypothesis import strategies as st
from traces import TraceBuilder

from tare.trace.breakdown import breakdown
from tare.trace.explanation import About, explain
from tare.trace.idle import IdleTime, explain_idle


def explained(builder: TraceBuilder) -> IdleTime:
    trace = builder.build()
    idle, parts = explain_idle(trace), breakdown(trace)
    assert idle is not None
    assert parts is not None
    assert idle.idle == parts.idle == sum(cause.idle for cause in idle.causes)
    for cause in idle.causes:
        assert cause.idle == sum(place.idle for place in cause.places)
    return idle


def causes(idle: IdleTime) -> dict[str, int]:
    return {cause.cause: cause.idle // 1000 for cause in idle.causes if cause.idle}


def places(idle: IdleTime, cause: str) -> dict[str, int]:
    return {p.where: p.idle // 1000 for c in idle.causes if c.cause == cause for p in c.places}


def test_one_gap_with_every_cause() -> None:
    """Python 0-10, data loading 10-20, dispatch 20-30, allocation 30-45, dispatch 45-50, the call 50-56, waiting
    56-60; after the kernel a wait (tail) to the end."""
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 20)
    builder.op("aten::stack", 12, 18)
    builder.op("aten::linear", 20, 58)
    builder.op("aten::addmm", 25, 57)
    builder.call("cudaMalloc", 30, 45)
    builder.launch(50, 56, 60, 90)
    idle = explained(builder)
    assert causes(idle) == {
        "python": 10, "dispatch": 15, "allocation": 15, "launch call": 6, "data loading": 10,
        "device-side waiting": 4, "tail": 10,
    }  # fmt: skip
    assert places(idle, "dispatch") == {"aten::linear": 15}
    assert places(idle, "python") == {"before aten::linear": 10}


def test_synchronisation_is_the_hosts_wait_while_the_device_is_idle() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.launch(0, 2, 2, 40)
    builder.op("aten::item", 5, 60)
    builder.call("cudaStreamSynchronize", 10, 55)
    builder.launch(70, 72, 75, 100)
    idle = explained(builder)
    # 40-55 of the wait, 55-60 of the operator, 60-70 of Python, 70-72 of the call, 72-75 on the device.
    assert causes(idle) == {
        "synchronisation": 15, "dispatch": 5, "python": 10, "launch call": 4, "device-side waiting": 3,
    }  # fmt: skip
    assert places(idle, "synchronisation") == {"aten::item": 15}


def test_work_that_was_launched_earlier_waits_on_the_device() -> None:
    builder = TraceBuilder()
    builder.step(0, 10)
    graph = builder.call("cudaGraphLaunch", 0, 5)
    builder.kernel("a", 6, 20, graph)
    builder.kernel("b", 23, 30, graph)
    assert causes(explained(builder)) == {"launch call": 5, "device-side waiting": 4}


def test_the_backward_pass_runs_on_another_thread() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op("aten::mul", 0, 10, **{"Sequence number": 4})
    builder.launch(2, 4, 5, 20)
    node = "autograd::engine::evaluate_function: MulBackward0"
    builder.op(node, 40, 50, thread=200, **{"Sequence number": 4, "Fwd thread id": 1})
    builder.launch(44, 46, 46, 60, thread=200)
    builder.op(node, 65, 80, thread=200, **{"Sequence number": 3, "Fwd thread id": 1})
    builder.launch(70, 72, 72, 100, thread=200)
    idle = explained(builder)
    # Python until the engine begins (20-40); then its operators, and between them the engine itself (60-65).
    assert causes(idle) == {"python": 20, "dispatch": 2 + 4 + 5 + 5, "launch call": 6, "device-side waiting": 1}


def test_stacks_name_the_line_and_the_module() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.frame("train.py(10): main", 0, 100)
    builder.frame("torch/nn/modules/module.py(1776): _call_impl", 5, 60)
    builder.frame("nn.Module: Linear_0", 6, 59)
    builder.op("aten::linear", 20, 40)
    builder.launch(30, 32, 33, 80)
    idle = explained(builder)
    assert places(idle, "dispatch") == {"train.py(10): main · Linear_0 · aten::linear": 10}
    assert places(idle, "python") == {
        "train.py(10): main": 5,
        "train.py(10): main · torch/nn/modules/module.py(1776): _call_impl": 1,
        "train.py(10): main · Linear_0": 14,
    }


def test_a_loader_seen_only_in_frames() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.frame("train.py(10): main", 0, 100)
    builder.frame("torch/utils/data/dataloader.py(733): __next__", 10, 60)
    builder.frame("threading.py(300): wait", 20, 55)
    builder.launch(70, 72, 72, 100)
    assert causes(explained(builder)) == {"data loading": 50, "python": 20, "launch call": 2}


def test_a_gap_across_two_steps_is_the_tail_of_one_and_the_head_of_the_other() -> None:
    builder = TraceBuilder()
    for begin in (0, 100):
        builder.step(begin, begin + 100)
        builder.launch(begin + 10, begin + 20, begin + 20, begin + 70)
    assert causes(explained(builder)) == {"python": 20, "launch call": 20, "tail": 60}


moments = st.integers(0, 200)


@st.composite
def programs(draw: st.DrawFn) -> TraceBuilder:
    """Arbitrary operators, calls, frames and device work on several threads and streams."""
    builder = TraceBuilder()
    end = 0
    for _ in range(draw(st.integers(0, 3))):
        begin = end + draw(st.integers(0, 20))
        end = begin + draw(st.integers(1, 90))
        builder.step(begin, end)
    spans = st.tuples(moments, st.integers(0, 60), st.sampled_from([100, 200]))
    for begin, length, thread in draw(st.lists(spans, max_size=12)):
        builder.op("aten::op", begin, begin + length, thread=thread)
    names = ["cudaStreamSynchronize", "cudaMalloc", "cudaFuncGetAttributes", "cudaEventRecord"]
    for begin, length, thread in draw(st.lists(spans, max_size=6)):
        builder.call(draw(st.sampled_from(names)), begin, begin + length, thread)
    for begin, length, thread in draw(st.lists(spans, max_size=6)):
        builder.frame(
            draw(st.sampled_from(["a.py(1): f", "torch/utils/data/x.py(2): g"])), begin, begin + length, thread
        )
    for begin, length, thread in draw(st.lists(spans, min_size=1, max_size=10)):
        start = begin + draw(st.integers(0, 30))
        stream = draw(st.sampled_from([7, 8]))
        builder.launch(
            begin, begin + length, start, start + draw(st.integers(0, 30)), thread=thread, stream=stream
        )
    return builder


@given(programs())
def test_the_parts_always_add_up(builder: TraceBuilder) -> None:
    explained(builder)


def causes_of(builder: TraceBuilder) -> dict[str, int]:
    idle = explain_idle(builder.build())
    assert idle is not None
    assert idle.idle == sum(cause.idle for cause in idle.causes)
    return {cause.cause: cause.idle // 1000 for cause in idle.causes if cause.idle}


def test_a_long_wait_after_a_returned_launch_is_no_launch() -> None:
    """A serving slice: the device gets to the second kernel 463 ms after its launch returned."""
    builder = TraceBuilder()
    builder.step(0, 470_000)
    builder.launch(0, 5, 10, 20)
    builder.launch(30, 35, 463_035, 463_135)
    causes = causes_of(builder)
    notes = explain(builder.build(), About(title="slice")).notes
    assert any(note.startswith("for 99% of the time the device waited, with work launched") for note in notes)
    assert causes["not known"] == 463_000
    assert "device-side waiting" not in causes or causes["device-side waiting"] < 10


def test_the_first_work_may_wait_for_work_before_the_trace() -> None:
    builder = TraceBuilder()
    builder.step(0, 9_000)
    builder.launch(0, 5, 5_005, 5_020)
    builder.launch(10, 15, 5_020, 8_990)
    assert causes_of(builder)["work before the trace"] == 5_000


def test_a_graph_may_take_longer_to_launch() -> None:
    builder = TraceBuilder()
    builder.step(0, 9_000)
    builder.launch(0, 5, 10, 20)
    builder.launch(30, 35, 4_035, 8_990, call="cudaGraphLaunch")
    assert causes_of(builder)["device-side waiting"] == 4_000 + 5


def test_a_server_that_waits_for_a_request() -> None:
    builder = TraceBuilder()
    builder.step(0, 9_000)
    builder.frame("server.py(7): serve", 0, 9_000)
    builder.launch(0, 5, 10, 20)
    builder.frame("queue.py(154): get", 30, 8_000)
    builder.frame("<built-in method acquire of _thread.lock object at 0x7f>", 35, 7_995)
    builder.launch(8_010, 8_015, 8_020, 8_990)
    assert causes_of(builder)["host waiting"] == 7_960
