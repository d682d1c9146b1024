"""Steps where none are marked, warm-up told from steady state, and once-only costs reported as such."""

import gzip
import json
from pathlib import Path

import pytest
from traces import RECORDED, TraceBuilder

from tare.findings.context import Context
from tare.findings.finding import find
from tare.trace.explanation import About, explain
from tare.trace.read import read
from tare.trace.tables import Trace


def rules(trace: Trace) -> set[str]:
    return {finding.rule for finding in find(Context(trace))}


def layers(builder: TraceBuilder, at: float, count: int) -> float:
    """A forward pass: an embedding, `count` equal layers, a head. Returns its end."""
    for name in ["embed", *["mm", "norm", "act"] * count, "head"]:
        builder.op(f"aten::{name}", at, at + 8)
        builder.launch(at + 2, at + 6, at + 8, at + 14, kernel=name)
        at += 10
    return at


def cold_start(steps: int = 6) -> TraceBuilder:
    """A first step that compiles, allocates and loads, then `steps` steady ones with 50 us of Python between."""
    builder = TraceBuilder()
    builder.op("compile_inner (dynamo_timed)", 0, 3000)
    builder.call("cudaMalloc", 3000, 3500)
    builder.call("cuModuleLoadData", 3500, 3900)
    builder.launch(3910, 3920, 3930, 3940, kernel="tune")
    at = 4000.0
    for number in range(steps):
        # The first repetition is slow: its kernels are loaded when they are first launched.
        if number == 0:
            builder.op("aten::empty", at, at + 1)
            at += 400
        at = layers(builder, at, 4) + 50
    return builder


def test_steps_are_found_by_the_repetition_of_launches() -> None:
    trace = cold_start().build()
    assert len(trace.steps) == 6
    assert set(trace.steps.duration[1:5].tolist()) == {190_000}
    explanation = explain(trace, About(title="cold"))
    assert explanation.breakdown is not None
    assert all(step.kernels == 14 for step in explanation.breakdown.steps)
    assert any("repetitions of the same launches are the steps" in note for note in explanation.notes)


def test_costs_of_a_cold_start_are_no_habit() -> None:
    found = {finding.rule: finding for finding in find(Context(cold_start().build()))}
    assert not {"allocator-churn", "recompilation"} & set(found)
    once = found["once-only-costs"]
    assert once.severity == "low"
    assert once.evidence["compiling_s"] == pytest.approx(3e-3)
    assert once.evidence["allocating_s"] == pytest.approx(0.5e-3)
    assert "compiling, allocating, loading modules" in once.summary


def test_a_stretch_that_does_not_repeat_shows_no_habit() -> None:
    builder = TraceBuilder()
    builder.call("cudaMalloc", 0, 400)
    layers(builder, 500, 1)
    trace = builder.build()
    assert len(trace.steps) == 1
    found = {finding.rule: finding for finding in find(Context(trace))}
    assert "allocator-churn" not in found
    assert "one stretch does not tell" in found["once-only-costs"].summary


def test_layers_are_no_steps() -> None:
    """One forward pass of twelve equal layers, which a head follows."""
    builder = TraceBuilder()
    layers(builder, 0, 12)
    assert len(builder.build().steps) == 1


def test_warm_up_repetitions_do_not_count() -> None:
    builder = TraceBuilder()
    at = 0.0
    for number in range(6):
        at = layers(builder, at, 2) + (500 if number == 0 else 50)
    trace = builder.build()
    assert trace.steps.counted.tolist() == [0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("name", ["resnext50-infer-b32-eager-streams", "doctr-infer-b64-eager-side-stream"])
def test_the_steps_of_recorded_traces_are_found_without_their_marks(tmp_path: Path, name: str) -> None:
    source = RECORDED / f"{name}.json.gz"
    marked = read(source)
    document = json.loads(gzip.decompress(source.read_bytes()))
    document["traceEvents"] = [
        event
        for event in document["traceEvents"]
        if not str(event.get("name", "")).startswith(("ProfilerStep#", "tare::step#"))
    ]
    path = tmp_path / "unmarked.json"
    path.write_text(json.dumps(document))
    found = read(path)
    assert len(found.steps) == len(marked.steps)
    assert explain(found, About(title="found")).host.steps >= len(marked.steps) - 1
