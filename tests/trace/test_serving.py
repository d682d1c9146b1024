"""The iterations of servers of language models: hand-made traces with known answers."""

from pathlib import Path

import pytest
from generation import record_generation
from hypothesis import given
from hypothesis import strategies as st
from nsight_exports import write_nsight
from serving import (
    PLAN,
    Names,
    Scheduled,
    detailed_vllm,
    generating,
    old_vllm,
    plain,
    served,
    sglang,
    tensorrt,
    vllm,
)
from traces import RECORDED, TraceBuilder

from tare.trace.read import read
from tare.trace.serving import IterationFigures, Serving, serving
from tare.trace.serving_iterations import SHAPES
from tare.trace.serving_marks import PLAIN, read_mark

US = 1000


def found(trace: TraceBuilder) -> Serving:
    result = serving(trace.build())
    assert result is not None
    parts = [result.between.device, result.between.waiting, result.between.scheduling, result.between.unknown]
    assert sum(parts) == result.between.total
    assert min(parts) >= 0
    assert sum(kind.total for kind in result.kinds) + result.between.total == result.window
    return result


def of_kind(result: Serving, kind: str) -> IterationFigures:
    (figures,) = (each for each in result.kinds if each.kind == kind)
    return figures


def test_the_iterations_of_a_server() -> None:
    result = found(served(vllm))
    assert (result.source, result.window) == ("vLLM", 3254 * US)
    assert [(one.at // US, one.ns // US) for one in result.iterations] == [
        (0, 150), (170, 122), (300, 140), (450, 123),
        (2600, 129), (2740, 123), (2870, 123), (3000, 125), (3130, 124),
    ]  # fmt: skip
    assert {each.kind: each.count for each in result.kinds} == {"prefill": 3, "decode": 5, "mixed": 1}
    decode = of_kind(result, "decode")
    assert (decode.total, decode.median, decode.p95, decode.busy) == (615 * US, 123 * US, 124 * US, 515 * US)


def test_how_full_the_batches_are() -> None:
    result = found(served(vllm))
    assert (result.largest_sequences, result.largest_tokens) == (4, 30)
    assert [(one.sequences, one.tokens) for one in result.iterations] == [
        (one.prefills + one.decodes, one.tokens) for one in PLAN
    ]
    # Over the time of the decodes: two for 122 us, three for 369 and four for 124.
    decode = of_kind(result, "decode")
    assert decode.sequences == decode.tokens == pytest.approx((2 * 122 + 3 * 369 + 4 * 124) / 615)


def test_the_time_between_tokens() -> None:
    """148, 133 and 130 us, and 261 with a prefill between. The three sequences that decode after the wait may all
    be those that were prefilled after it."""
    times = found(served(vllm)).token_times
    assert times is not None
    assert (times.count, times.interrupted) == (4, 1)
    assert (times.median, times.p95, times.p99, times.longest) == (140_500, 261 * US, 261 * US, 261 * US)


def test_what_happens_between_iterations() -> None:
    """Of 2095 us the device samples for 10, the host waits for 2015 and schedules for the rest."""
    between = found(served(vllm)).between
    assert [between.total, between.device, between.waiting, between.scheduling, between.unknown] == [
        2095 * US, 10 * US, 2015 * US, 70 * US, 0,
    ]  # fmt: skip


def test_without_stacks_waiting_is_not_told_from_other_pauses() -> None:
    result = found(served(vllm, stacks=False))
    assert (result.between.waiting, result.between.unknown) == (0, 2085 * US)
    assert any("without stacks" in note for note in result.notes)


@pytest.mark.parametrize(
    ("names", "source", "kinds"),
    [
        (detailed_vllm, "vLLM", {"prefill": 3, "decode": 5, "mixed": 1}),
        (old_vllm, "vLLM", {"prefill": 3, "decode": 5, "mixed": 1}),
        (sglang, "SGLang", {"prefill": 3, "decode": 5, "mixed": 1}),
        (tensorrt, "TensorRT-LLM", {"prefill": 3, "decode": 5, "mixed": 1}),
        (plain, PLAIN, {"prefill": 3, "decode": 6}),
    ],
)
def test_the_ranges_of_every_server(names: Names, source: str, kinds: dict[str, int]) -> None:
    result = found(served(names))
    assert result.source == source
    assert {each.kind: each.count for each in result.kinds} == kinds
    known = [one.tokens for one in result.iterations if one.tokens is not None]
    assert known == ([one.tokens for one in PLAN] if names not in (old_vllm, plain) else [])
    assert any("is not known" in note for note in result.notes) == (names in (sglang, plain))


def test_the_ranges_of_a_server_in_an_export_of_nsight_systems(tmp_path: Path) -> None:
    result = serving(read(write_nsight(served(tensorrt, stacks=False), tmp_path / "report.sqlite")))
    assert result is not None
    assert result.source == "TensorRT-LLM"
    assert result.kinds == found(served(tensorrt, stacks=False)).kinds


@pytest.mark.parametrize(
    "name",
    [
        "execute_context_0(0)_generation_0(0)", "step[IDLE bs=0]", "PREFILL+DECODE_generate", "decoder",
        "undecoded", "execute_model", "ProfilerStep#3", "",
    ],
)  # fmt: skip
def test_other_ranges_are_no_iterations(name: str) -> None:
    assert read_mark(name) is None


def test_ranges_of_one_kind_are_a_decoder_of_something_else() -> None:
    trace = TraceBuilder()
    for at in range(0, 1000, 100):
        trace.annotation("jpeg decode", at, at + 50)
        trace.launch(at + 10, at + 15, at + 20, at + 60)
    assert serving(trace.build()) is None


def test_a_range_around_a_whole_loop_is_no_iteration() -> None:
    """The shapes tell more; without them a note says what a range may be."""
    for shapes in (True, False):
        trace = generating(shapes=shapes)
        trace.annotation("prefill", 0, 69)
        trace.annotation("decode", 75, 400)
        result = found(trace)
        decodes = of_kind(result, "decode").count
        noted = any("may hold a whole loop" in note for note in result.notes)
        assert (decodes, noted) == ((4, False) if shapes else (1, True))


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_loop_that_generates(by_hand: bool) -> None:
    """The iterations begin after the pause of 10 us before the concatenation; 2 us after the device is done."""
    result = found(generating(by_hand=by_hand))
    assert result.source == SHAPES
    assert [one.kind for one in result.iterations] == ["prefill", *["decode"] * 4]
    assert [(one.at // US, one.ns // US) for one in result.iterations] == [
        (0, 68),
        *[(70 + 77 * i, 75) for i in range(4)],
    ]
    assert [(one.sequences, one.tokens) for one in result.iterations] == [(2, 12), *[(2, 2)] * 4]
    assert (result.between.total, result.between.unknown) == (4 * 2 * US, 4 * 2 * US)
    assert result.token_times is not None
    assert (result.token_times.count, result.token_times.median) == (3, 77 * US)


def test_embeddings_within_the_layers_begin_no_iteration() -> None:
    """T5 looks up relative positions between two products."""
    trace = generating()
    for at in [event["ts"] for event in trace.events if event["name"] == "aten::mm"]:
        trace.op(
            "aten::embedding", at - 1.5, at - 1, **{"Input Dims": [[32, 4], [1, 9]], "Input type": ["float"] * 2}
        )
    plain = found(generating())
    assert found(trace).iterations == plain.iterations


def test_loops_of_something_else_generate_nothing() -> None:
    assert serving(generating(shapes=False).build()) is None
    # A text encoder reads whole sequences every time; so few tokens are none.
    encoding = generating()
    for event in encoding.events:
        dims = event["args"].get("Input Dims")
        if dims and event["name"] != "aten::mm":
            event["args"]["Input Dims"] = [[100, 8], [2, 6]] if len(dims[0]) == 2 else [[2, 4, 6, 8]] * 2
    assert serving(encoding.build()) is None
    assert serving(generating(tokens=3).build()) is None
    lookups = generating()
    lookups.events = [event for event in lookups.events if event["name"] == "aten::embedding"]
    assert serving(lookups.build()) is None
    training = generating()
    training.op("autograd::engine::evaluate_function: MmBackward0", 900, 950)
    assert serving(training.build()) is None


def test_a_host_that_is_ahead_does_not_count_twice() -> None:
    """Iterations are begun every 100 us, and the device takes 200 for each."""
    trace = TraceBuilder()
    for i in range(5):
        trace.annotation(vllm(0, 0, 8), 100 * i, 100 * i + 60)
        trace.launch(100 * i + 10, 100 * i + 15, 20 + 200 * i, 220 + 200 * i)
    result = found(trace)
    assert [one.ns // US for one in result.iterations] == [220, 200, 200, 200, 200]
    assert result.between.total == 0
    assert result.token_times is not None
    assert result.token_times.median == 200 * US


def test_iterations_without_a_device_are_those_of_the_host() -> None:
    trace = TraceBuilder()
    for i in range(4):
        trace.annotation(vllm(0, 0, 2), 100 * i, 100 * i + 60)
        trace.op("aten::mm", 100 * i + 5, 100 * i + 50)
    result = found(trace)
    assert [one.ns // US for one in result.iterations] == [60] * 4
    assert of_kind(result, "decode").busy is None


scheduled = st.lists(
    st.tuples(st.integers(61, 400), st.integers(0, 2), st.integers(0, 3), st.integers(0, 300)),
    min_size=2,
    max_size=12,
)


@given(scheduled, st.booleans())
def test_the_parts_always_add_up(steps: list[tuple[int, int, int, int]], stacks: bool) -> None:
    at, plan = 0, []
    for pause, prefills, decodes, tokens in steps:
        at += pause
        plan.append(Scheduled(at, prefills, tokens if prefills else 0, decodes))
    trace = served(vllm, plan, stacks=stacks)
    if sum(one.prefills + one.decodes > 0 for one in plan) >= 2:
        found(trace)


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json.gz")), ids=lambda path: path.name[:-8])
def test_no_recorded_trace_is_taken_for_a_server(path: Path) -> None:
    assert serving(read(path)) is None


@pytest.mark.full
@pytest.mark.parametrize("stacks", [False, True])
def test_a_recorded_loop_on_a_cpu(tmp_path: Path, stacks: bool) -> None:
    path = record_generation(tmp_path / "trace.json", "cpu", batch=3, prompt=9, tokens=6, stacks=stacks)
    result = serving(read(path))
    assert result is not None
    assert [(one.kind, one.sequences, one.tokens) for one in result.iterations] == [
        ("prefill", 3, 27), *[("decode", 3, 3)] * 5,
    ]  # fmt: skip
    assert result.token_times is not None
    assert result.token_times.count == 4
    assert (result.between.unknown == 0) == stacks
