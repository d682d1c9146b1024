"""The reader: tables with known rows, and one line for what is no trace."""

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from traces import TraceBuilder

from tare.errors import BadInput
from tare.trace import stream, tables
from tare.trace.read import read


def small() -> TraceBuilder:
    """A step with two nested operators, a launch through each of runtime and driver, a copy and a wait."""
    trace = TraceBuilder(tare_recorded={"gross_ns": 5})
    trace.step(0, 100, number=3)
    trace.op("aten::linear", 5, 40, **{"Input Dims": [[2, 3], [4, 3]], "External id": 9, "Sequence number": 1})
    trace.op("aten::addmm", 10, 35, **{"External id": 10})
    trace.launch(12, 15, 20, 30.125, "gemm", grid=[4, 1, 1])
    trace.launch(50, 52, 55, 60, "triton_add", call="cuLaunchKernel")
    copied = trace.call("cudaMemcpyAsync", 61, 63)
    trace.copy("DtoH (Device -> Pageable)", 64, 66, copied, 4096)
    trace.call("cudaStreamSynchronize", 66, 70)
    trace.frame("model.py(7): forward", 2, 80)
    trace.memory(11, 512, 0xFFFF_FFFF_FFFF_0000, 512)
    trace.kernel("unlaunched", 1, 2, correlation=999)
    return trace


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "renamed"])
def test_tables(tmp_path: Path, name: str) -> None:
    trace = read(small().write(tmp_path / name))
    assert trace.metadata["tare_recorded"] == {"gross_ns": 5}
    assert (trace.steps.number.tolist(), trace.steps.end.tolist()) == ([3], [100_000])
    assert [trace.name(trace.operators, i) for i in range(2)] == ["aten::linear", "aten::addmm"]
    assert trace.operators.parent.tolist() == [-1, 0]
    assert trace.operators.sequence.tolist() == [1, -1]
    assert json.loads(trace.inputs_of(0).dims) == [[2, 3], [4, 3]]
    assert trace.calls.kind.tolist() == [tables.LAUNCH, tables.LAUNCH, tables.COPY_CALL, tables.SYNC]
    assert trace.calls.operator.tolist() == [1, -1, -1, -1]
    assert trace.calls.frame.tolist() == [0, 0, 0, 0]
    device = trace.device
    assert [trace.name(device, i) for i in range(4)] == [
        "unlaunched", "gemm", "triton_add", "Memcpy DtoH (Device -> Pageable)",
    ]  # fmt: skip
    assert device.call.tolist() == [-1, 0, 1, 2]
    assert device.duration.tolist() == [1000, 10_125, 5000, 2000]
    assert device.grid[1].tolist() == [4, 1, 1]
    assert (device.bytes[3], device.direction[3], device.memory[3]) == (
        4096, tables.DEVICE_TO_HOST, tables.PAGEABLE,
    )  # fmt: skip
    assert trace.memory.bytes.tolist() == [512]


def test_many_kernels_under_one_graph_launch() -> None:
    builder = TraceBuilder()
    launched = builder.call("cudaGraphLaunch", 0, 5)
    for i in range(3):
        builder.kernel(f"k{i}", 10 + i, 11 + i, launched, **{"graph id": 2, "graph node id": i})
    trace = builder.build()
    assert trace.device.call.tolist() == [0, 0, 0]
    assert trace.calls.kind.tolist() == [tables.GRAPH]


def test_without_steps_the_whole_trace_is_one_step() -> None:
    builder = TraceBuilder()
    builder.op("aten::add", 10, 12)
    builder.launch(11, 12, 15, 20)
    trace = builder.build()
    assert (trace.steps.start.tolist(), trace.steps.end.tolist()) == ([10_000], [20_000])


def test_a_bare_list_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(small().events))
    assert len(read(path).device) == 4


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(size=st.integers(30, 900), escape=st.text(max_size=20))
def test_chunks_of_any_size_give_the_same_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, escape: str
) -> None:
    """Brackets, quotes and backslashes in names must not be taken for the end of an event."""
    builder = small()
    builder.op('}],{"\\', 90, 91)
    builder.op(escape, 92, 93)
    path = builder.write(tmp_path / "t.json")
    monkeypatch.setattr(stream, "CHUNK", size)
    trace = read(path)
    # What would steer a terminal is read as a mark for it.
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in escape)
    assert [trace.name(trace.operators, row) for row in (2, 3)] == ['}],{"\\', shown]
    assert np.array_equal(trace.device.start, small().build().device.start)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"not json", "no list 'traceEvents'"),
        (b'{"a": 1}', "no list 'traceEvents'"),
        (b'{"traceEvents": 3}', "no list 'traceEvents'"),
        (b'{"traceEvents": [{"ph": "X"}', "truncated"),
        (b'{"traceEvents": [{"ph": "X", "name": "a', "truncated"),
        (b'{"traceEvents": [1, 2]}', "is not a trace"),
        (b'{"traceEvents": [{"ph": 3}]}', "is not a trace"),
        (b'{"traceEvents": [}]}', "is not a trace"),
        (b'{"traceEvents": []', "is not a trace"),
        (b'{"traceEvents": []} tail', "is not a trace"),
        (b'[{"ph": "X"}] tail', "is not a trace"),
        (b'{"traceEvents": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}", "is not a trace"),
        (b'{"traceEvents": [{"ph":"X","cat":"kernel","ts":1,"args":{"stream":[]}}]}', "is not a trace"),
        (gzip.compress(b'{"traceEvents": []}' * 50, mtime=0)[:-12], "truncated"),
        (b"\x1f\x8bnot gzip at all", "cannot read"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_in_one_line(tmp_path: Path, text: bytes, complaint: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text)
    with pytest.raises(BadInput, match=complaint) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("piece", [b'{"ph":"M"},', pytest.param(b"[", marks=pytest.mark.full), b" ", b"0,"])
def test_a_trace_that_expands_out_of_all_proportion_is_refused(tmp_path: Path, piece: bytes) -> None:
    path = tmp_path / "t.json.gz"
    member = gzip.compress(piece * ((4 << 20) // len(piece)))
    path.write_bytes(gzip.compress(b'{"traceEvents": [') + member * 20)
    with pytest.raises(BadInput, match=r"expands to more than 50 times|is not a trace") as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        read(tmp_path / "none.json")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 3000), junk=st.binary(max_size=12))
def test_a_damaged_file_is_refused_or_read(tmp_path: Path, cut: int, junk: bytes) -> None:
    text = json.dumps(small().document()).encode()
    path = tmp_path / "t.json"
    path.write_bytes(text[:cut] + junk + text[cut + len(junk) :])
    with suppress(BadInput):
        read(path)


def test_invalid_times_are_skipped_and_counted() -> None:
    builder = small()
    for ts in (1e300, None, "soon", -1e18):
        builder.events.append({"ph": "X", "cat": "cpu_op", "name": "bad", "ts": ts, "dur": 1})
    builder.events.append({"ph": "X", "cat": "cpu_op", "name": "bad", "ts": 1.0, "dur": -5.0})
    trace = builder.build()
    assert (trace.skipped, len(trace.operators)) == (5, 2)


def test_steps_of_tare_take_precedence_over_those_of_the_profiler() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.annotation("tare::step#0", 10, 60)
    builder.annotation("tare::step#1", 65, 90)
    trace = builder.build()
    assert (trace.steps.number.tolist(), trace.steps.start.tolist()) == ([0, 1], [10_000, 65_000])


def test_malformed_arguments_of_unused_events_are_ignored(tmp_path: Path) -> None:
    """Quoted numbers are read as numbers."""
    builder = small()
    for event in builder.events:
        if "correlation" in event["args"]:
            event["args"]["correlation"] = str(event["args"]["correlation"])
    builder.event("my_plugin", "strange", 1, 2, args={"correlation": {"a": 1}, "grid": "big"})
    builder.events.append({"ph": "M", "name": "process_name", "args": None})
    trace = read(builder.write(tmp_path / "t.json"))
    assert trace.device.call.tolist() == [-1, 0, 1, 2]


def test_a_stream_that_is_no_number_is_unknown() -> None:
    builder = TraceBuilder()
    builder.kernel("k", 1, 2, correlation=3)
    builder.events[-1]["args"]["stream"] = "--5"
    assert builder.build().device.stream.tolist() == [-1]


@pytest.mark.parametrize("odd", [{"correlation": 2**70}, {"grid": [1, 2**70, 1]}, {"block": [1, "many", 1]}])
def test_numbers_out_of_range_are_refused_in_one_line(tmp_path: Path, odd: dict[str, Any]) -> None:
    builder = small()
    builder.kernel("huge", 1, 2, **{"correlation": 3, **odd})
    with pytest.raises(BadInput, match="cannot be read"):
        read(builder.write(tmp_path / "t.json"))


def test_an_event_larger_than_a_chunk(tmp_path: Path) -> None:
    builder = small()
    builder.op("x" * (5 * stream.CHUNK), 90, 91)
    builder.op("after", 92, 93)
    trace = read(builder.write(tmp_path / "t.json"))
    assert [len(trace.name(trace.operators, row)) for row in (2, 3)] == [5 * stream.CHUNK, 5]


def test_a_comma_after_the_last_event_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [' + ",\n".join(map(json.dumps, small().events)) + ",\n]}")
    assert len(read(path).device) == 4


def test_unknown_phases_are_ignored(tmp_path: Path) -> None:
    builder = small()
    odd: list[dict[str, object]] = [
        {"ph": "Q"},
        {"name": "no phase"},
        {"ph": "s", "id": 1},
        {"ph": "M", "args": 5},
    ]
    builder.events[3:3] = odd
    trace = read(builder.write(tmp_path / "t.json"))
    assert (len(trace.device), trace.events) == (4, len(builder.events))


EVENT = '{"ph": "X", "cat": "cpu_op", "name": "aten::mul", "pid": 1, "tid": 1, "ts": 5, "dur": 2}'


def test_the_head_of_a_file_is_searched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Twenty megabytes of metadata come before the events."""
    path = tmp_path / "t.json"
    notes = "x" * (20 << 20)
    path.write_text('{"notes": "' + notes + '", "traceEvents": [' + EVENT + "]}")
    looked: list[int] = []
    find_list = stream.find_list

    def counting(text: bytes, searched: int) -> int:
        looked.append(len(text) - searched)
        return find_list(text, searched)

    monkeypatch.setattr(stream, "find_list", counting)
    trace = read(path)
    assert (trace.events, len(trace.metadata["notes"])) == (1, 20 << 20)
    # Every byte once, and what was read beyond the head.
    assert sum(looked) <= 2 * path.stat().st_size


@pytest.mark.parametrize("border", range(-16, 3))
def test_a_key_across_two_parts_is_found(tmp_path: Path, border: int) -> None:
    path = tmp_path / "t.json"
    head = '{"notes": "' + "x" * (stream.CHUNK + border - 13) + '",'
    path.write_text(head + '"traceEvents" : [' + EVENT + "]}")
    assert read(path).events == 1


def test_a_key_within_a_text_is_none(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"notes": "\\"traceEvents\\": [", "traceEvents": [' + EVENT + "]}")
    assert read(path).events == 1


def test_a_large_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"notes": "' + "x" * (10 << 20) + '"}')
    with pytest.raises(BadInput, match="has no list 'traceEvents'"):
        read(path)
