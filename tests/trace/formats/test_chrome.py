"""Chrome traces of any tool: devices and streams by name, pairs of begin and end, names that come late."""

import json
from pathlib import Path
from typing import Any

import pytest

from tare.errors import BadInput
from tare.trace import tables
from tare.trace.breakdown import breakdown
from tare.trace.host_time import host_time
from tare.trace.read import read

Events = list[dict[str, Any]]


def name(what: str, pid: Any, text: str, tid: Any = None) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": text}}


def span(title: str, pid: Any, tid: Any, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "name": title, "cat": "mine", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def program() -> Events:
    """What a converter makes of some profiler's file: a host, and a device with two streams."""
    return [
        name("process_name", 1, "Host"),
        name("process_name", 2, "GPU 3"),
        name("thread_name", 2, "Stream 7", 7),
        name("thread_name", 2, "Stream 9", 9),
        span("step 0", 1, 1, 0, 100),
        span("step 1", 1, 1, 100, 100),
        span("linear", 1, 1, 5, 20),
        span("cudaLaunchKernel", 1, 1, 8, 4, correlation=1),
        span("gemm", 2, 7, 20, 30, correlation=1),
        span("cudaMemcpyAsync", 1, 1, 14, 4, correlation="2"),
        span("Memcpy HtoD (Pageable -> Device)", 2, 9, 40, 20, correlation="2", bytes=4096),
        span("cudaLaunchKernel", 1, 1, 108, 4, correlation=3),
        span("gemm", 2, 7, 120, 30, correlation=3),
    ]


def write(path: Path, events: Events, **more: Any) -> Path:
    path.write_text(json.dumps({"traceEvents": events, **more}))
    return path


def test_devices_and_streams_are_known_by_their_names(tmp_path: Path) -> None:
    trace = read(write(tmp_path / "t.json", program(), tool="mine"))
    assert trace.metadata == {"tool": "mine"}
    assert trace.steps.number.tolist() == [0, 1]
    work = trace.device
    assert (work.device.tolist(), work.stream.tolist()) == ([3, 3, 3], [7, 9, 7])
    assert work.kind.tolist() == [tables.KERNEL, tables.COPY, tables.KERNEL]
    assert (work.bytes[1], work.direction[1], work.memory[1]) == (4096, tables.HOST_TO_DEVICE, tables.PAGEABLE)
    assert work.call.tolist() == [0, 1, 2]
    assert [trace.name(trace.operators, row) for row in trace.calls.operator.tolist()[:2]] == ["linear", "linear"]
    parts = breakdown(trace)
    assert parts is not None
    assert (parts.active, parts.movement, parts.idle, parts.window) == (60_000, 10_000, 130_000, 200_000)


def test_names_may_come_last_and_numbers_be_texts(tmp_path: Path) -> None:
    events = program()
    late = [
        event | {key: str(event[key]) for key in ("pid", "tid", "ts", "dur") if key in event}
        for event in (*events[4:], *events[:4])
    ]
    trace, expected = read(write(tmp_path / "late.json", late)), read(write(tmp_path / "t.json", events))
    assert breakdown(trace) == breakdown(expected)


def test_pairs_of_begin_and_end_are_spans(tmp_path: Path) -> None:
    paired: Events = []
    for event in program():
        if event["ph"] == "X":
            begin = event | {"ph": "B"}
            del begin["dur"]
            end = {"ph": "E", "pid": event["pid"], "tid": event["tid"], "ts": event["ts"] + event["dur"]}
            paired += [begin, end]
        else:
            paired.append(event)
    # The ends of a thread come in order of time.
    paired.sort(key=lambda event: (event.get("ts", -1), event["ph"] == "B"))
    trace, expected = read(write(tmp_path / "b.json", paired)), read(write(tmp_path / "t.json", program()))
    assert breakdown(trace) == breakdown(expected)
    assert (trace.begun, trace.skipped) == (0, 0)
    assert trace.operators.duration.tolist() == [20_000]


def test_without_a_device_what_calls_nothing_computes(tmp_path: Path) -> None:
    events = [span("model_run", 1, 1, 0, 100), span("Conv", 1, 1, 10, 60), span("Relu", 1, 1, 75, 20)]
    time = host_time(read(write(tmp_path / "t.json", events)))
    assert time is not None
    assert (time.computed, time.dispatch, time.window) == (80_000, 20_000, 100_000)


@pytest.mark.parametrize(
    "odd",
    [
        {"ph": "X", "name": "x", "args": [1, 2]},
        {"ph": "X", "name": None, "pid": None, "ts": None, "dur": "long"},
        {"ph": "X", "name": "x", "ts": 1e300, "dur": 1},
        {"ph": "X", "name": "x", "ts": 5, "dur": -1},
        {"ph": "E", "pid": 77, "ts": 5},
        {"ph": "M", "name": "process_name", "pid": 5, "args": {"name": ["GPU"]}},
        {"ph": "M", "name": "thread_name", "pid": 5, "args": None},
        {"ph": "X", "name": "gemm", "pid": 2, "tid": 7, "ts": 500, "dur": 0, "args": {"correlation": {"a": 1}}},
        {"ph": "b", "name": "async", "pid": 1, "tid": 1, "ts": 5},
        {"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": 99, "dur": 0, "args": {"correlation": "--5"}},
    ],
)
def test_odd_events_do_no_harm(tmp_path: Path, odd: dict[str, Any]) -> None:
    trace = read(write(tmp_path / "t.json", [*program(), odd]))
    parts, expected = breakdown(trace), breakdown(read(write(tmp_path / "e.json", program())))
    assert parts is not None
    assert expected is not None
    assert (parts.window, parts.active, parts.movement) == (expected.window, expected.active, expected.movement)


def test_a_begin_that_never_ends_is_counted(tmp_path: Path) -> None:
    begin = {"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 150}
    assert read(write(tmp_path / "t.json", [*program(), begin])).begun == 1


def test_beginnings_without_ends_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.trace.read.MOST_OPEN", 10)
    begins = [{"ph": "B", "name": "open", "pid": 1, "tid": i, "ts": i} for i in range(1000)]
    assert read(write(tmp_path / "t.json", [*program(), *begins])).begun == 1000


def test_events_with_categories_of_torch_are_read_as_before(tmp_path: Path) -> None:
    """One of them is enough: a trace of torch may hold events of other tools."""
    known = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 10}
    trace = read(write(tmp_path / "t.json", [*program(), known]))
    assert (len(trace.operators), len(trace.device)) == (1, 0)


def test_a_file_without_events_is_refused_as_before(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [1]}')
    with pytest.raises(BadInput, match="is not a trace"):
        read(path)
