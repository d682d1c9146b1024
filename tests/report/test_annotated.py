"""Annotated traces: the original is complete, and the added events are in place."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from traces import RECORDED, TraceBuilder

from tare.errors import BadInput
from tare.findings.context import Context
from tare.findings.finding import Finding, find
from tare.report.formats.annotated_trace import PROCESS, write_annotated
from tare.trace.breakdown import breakdown
from tare.trace.idle import explain_idle
from tare.trace.read import read


def annotated(source: Path, target: Path) -> tuple[dict[str, Any], list[dict[str, Any]], list[Finding]]:
    """The document that was written, our events in it, and the findings."""
    trace = read(source)
    findings = find(Context(trace))
    write_annotated(trace, source, target, findings)
    data = target.read_bytes()
    document = json.loads(gzip.decompress(data) if target.suffix == ".gz" else data)
    ours = [event for event in document["traceEvents"] if event.get("pid") == PROCESS]
    return document, ours, findings


@pytest.mark.parametrize(
    "name", ["inefficient-scalar-copies", "resnet50-infer-b1-cudagraph", "inefficient-starved-loader"]
)
@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_the_original_is_complete(tmp_path: Path, name: str, ending: str) -> None:
    source = RECORDED / f"{name}.json.gz"
    document, ours, _ = annotated(source, tmp_path / f"out{ending}")
    original = json.loads(gzip.decompress(source.read_bytes()))
    document["traceEvents"] = [event for event in document["traceEvents"] if event not in ours]
    assert document == original


def test_gaps_and_findings_are_in_place(tmp_path: Path) -> None:
    source = RECORDED / "inefficient-scalar-copies.json.gz"
    _, ours, findings = annotated(source, tmp_path / "out.json")
    trace = read(source)
    idle, parts = explain_idle(trace), breakdown(trace)
    assert idle is not None
    assert parts is not None
    pieces = [event for event in ours if event["ph"] == "X" and event["tid"] == 1]
    for cause in idle.causes:
        shown = sum(event["dur"] for event in pieces if event["name"] == cause.cause)
        assert shown == pytest.approx(cause.idle / 1e3, abs=0.5), cause.cause
    copies = [event for event in ours if event["name"] == "scalar-copies"]
    assert len(copies) == 40
    assert "Keep the number in Python" in copies[0]["args"]["remedy"]
    tracks = {event["args"]["name"] for event in ours if event["name"] == "thread_name"}
    assert tracks == {"why the device is idle"} | {f"finding: {f.rule}" for f in findings}
    # launch-bound has no spans and covers the whole step.
    whole = [event for event in ours if event["name"] == "launch-bound"]
    assert [event["dur"] for event in whole] == pytest.approx([step.window / 1e3 for step in parts.steps])


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json.gz")), ids=lambda path: path.name[:-8])
def test_added_events_follow_the_format(tmp_path: Path, path: Path) -> None:
    """The rules of the Trace Event Format, in the arithmetic of the viewers: times are floats of microseconds."""
    document, ours, _ = annotated(path, tmp_path / "out.json")
    slices = [event for event in ours if event["ph"] == "X"]
    assert len(slices) > 0
    assert {event["ph"] for event in ours} == {"X", "M"}
    names = {(event["name"], event["tid"]): event["args"] for event in ours if event["ph"] == "M"}
    assert names["process_name", 0] == {"name": "tare"}
    assert all(names["thread_name", event["tid"]]["name"] for event in slices)
    assert all(type(event[key]) is int for event in ours for key in ("pid", "tid"))
    assert all(event["name"] and event["cat"] == "tare" and event["dur"] > 0 for event in slices)
    theirs = [event for event in document["traceEvents"] if event["ph"] == "X" and event["pid"] != PROCESS]
    begin, end = min(event["ts"] for event in theirs), max(event["ts"] + event["dur"] for event in theirs)
    # Overlapping slices of one track are drawn wrongly by every viewer, be it by a part of a nanosecond.
    last: dict[int, float] = {}
    for event in sorted(slices, key=lambda event: event["ts"]):
        assert max(begin, last.get(event["tid"], begin)) <= event["ts"]
        last[event["tid"]] = event["ts"] + event["dur"]
    assert max(last.values()) <= end


def test_an_annotated_trace_is_read_as_the_original(tmp_path: Path) -> None:
    source = RECORDED / "mlp-train-compile.json.gz"
    annotated(source, tmp_path / "out.json")
    assert breakdown(read(tmp_path / "out.json")) == breakdown(read(source))


def test_bare_lists_and_empty_lists(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.step(0, 100)
    trace.launch(1, 2, 3, 50)
    for text in (json.dumps(trace.events), json.dumps({"traceEvents": []})):
        source = tmp_path / "in.json"
        source.write_text(text)
        write_annotated(trace.build(), source, tmp_path / "out.json", [])
        written = json.loads((tmp_path / "out.json").read_text())
        events = written if isinstance(written, list) else written["traceEvents"]
        assert any(event.get("pid") == PROCESS for event in events)


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_text('{"no": "events"}')
    with pytest.raises(BadInput, match="no list 'traceEvents'"):
        write_annotated(TraceBuilder().build(), source, tmp_path / "out.json", [])
    with pytest.raises(BadInput, match="cannot write"):
        write_annotated(TraceBuilder().build(), source, tmp_path / "no" / "folder.json", [])
    assert [path.name for path in tmp_path.iterdir()] == ["in.json"]
