"""Explanations: of a device, of a CPU alone, of what cannot be explained; and of groups of workloads."""

import gzip
import json
from pathlib import Path

import pytest
import torch
from traces import RECORDED, TraceBuilder

from tare.errors import BadInput
from tare.records.work import Work
from tare.trace.explanation import About, Explanation, explain
from tare.trace.group import group_breakdowns
from tare.trace.metadata import RecordingInfo, recorded_gross, recording_info
from tare.trace.read import read
from tare.worker.profiling import record


def explain_file(name: str, **about: str) -> Explanation:
    trace = read(RECORDED / f"{name}.json.gz")
    return explain(trace, About(title=name, gross=recorded_gross(trace), **about))


def test_gross_is_read_from_the_trace() -> None:
    explanation = explain_file("resnet50-infer-b1-eager")
    assert explanation.device == "NVIDIA H200"
    document = json.loads(gzip.decompress((RECORDED / "resnet50-infer-b1-eager.json.gz").read_bytes()))
    assert explanation.waterfall.gross == round(document["tare_recorded"]["gross_ns"])
    assert not explanation.waterfall.profiled
    assert explanation.notes == []


def test_without_gross_only_shares_are_known() -> None:
    trace = read(RECORDED / "mlp-train-eager-stack.json.gz")
    explanation = explain(trace, About(title="somebody's"))
    assert explanation.waterfall.profiled
    assert any("gross is not known" in note for note in explanation.notes)
    assert any("stacks" in note for note in explanation.notes)


@pytest.mark.parametrize("gross", ["5", None, -1, float("nan"), {}, True])
def test_a_gross_that_is_not_a_time_is_ignored(gross: object) -> None:
    assert recorded_gross(TraceBuilder(tare_recorded={"gross_ns": gross}).build()) is None


def test_a_cpu_trace_recorded_by_tare(tmp_path: Path) -> None:
    layer, batch = torch.nn.Linear(64, 64), torch.randn(256, 64)
    path = tmp_path / "cpu.json.gz"
    record(
        lambda: layer(batch).relu(), lambda: None, "cpu", str(path), 5, False, {"tare_profiled": {"case": "none"}}
    )
    trace = read(path)
    assert trace.steps.number.tolist() == [0, 1, 2, 3, 4]
    assert trace.metadata["tare_profiled"] == {"case": "none"}
    assert recording_info(trace) is None
    explanation = explain(trace, About(title="cpu", gross=1_000_000))
    assert explanation.breakdown is None
    assert (
        explanation.waterfall.gross == 1_000_000 == sum(segment.ns for segment in explanation.waterfall.segments)
    )
    calls = {one.name: one.calls for one in explanation.host.operators}
    assert calls["aten::addmm"] == explanation.host.steps
    assert "no device: the host's time by operator" in explanation.notes


MARKS = {"case": "a/eager", "workload": "a", "mode": "infer", "precision": "fp32", "rung": "eager"}


def test_the_recording_info_of_a_trace() -> None:
    info = recording_info(TraceBuilder(tare_profiled=MARKS | {"resident": {}, "host_ns": 5}).build())
    assert info == RecordingInfo(case="a/eager", workload="a", mode="infer", precision="fp32", rung="eager")
    work = {"operators": [], "read": 10, "written": 20}
    info = recording_info(TraceBuilder(tare_profiled=MARKS | {"work": work}).build())
    assert info is not None
    assert info.work == Work(operators=[], read=10, written=20)


@pytest.mark.parametrize("marks", [None, 5, [], {}, MARKS | {"mode": 1}, MARKS | {"work": {"operators": [{}]}}])
def test_malformed_recording_info_is_ignored(marks: object) -> None:
    assert recording_info(TraceBuilder(tare_profiled=marks).build()) is None


def test_an_empty_trace_is_refused_in_one_line() -> None:
    with pytest.raises(BadInput, match="nothing to explain"):
        explain(TraceBuilder().build(), About(title="empty"))


def test_notes_report_lost_launches_and_orphans() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.launch(1, 2, 10, 20)
    builder.call("cudaLaunchKernel", 30, 31)
    builder.kernel("nobody's", 40, 50, correlation=99)
    notes = explain(builder.build(), About(title="lossy", gross=100_000)).notes
    assert any("1 launches have no kernel" in note for note in notes)
    assert any("1 kernels or copies have no launching call" in note for note in notes)


def test_a_group_by_domain() -> None:
    names = {
        "resnet50-infer-b1-eager": "vision",
        "resnet50-infer-b1-cudagraph": "vision",
        "lstm-train-eager": "nlp",
    }
    groups = group_breakdowns(
        [explain_file(n, workload=n, mode="infer", domain=domain) for n, domain in names.items()],
        {"x/y": "failed"},
    )
    assert [(mean.domain, mean.workloads) for mean in groups.domains] == [("nlp", 1), ("vision", 2)]
    assert [(mean.domain, mean.workloads) for mean in groups.overall] == [("all", 3)]
    shares = [(one.active, one.movement, one.idle) for one in groups.bars]
    shares += [(one.active, one.movement, one.idle) for one in (*groups.domains, *groups.overall)]
    assert [sum(one) for one in shares] == pytest.approx([1] * len(shares))
    # Under the profiler the graph's launch takes so long that it computes for 60 % only; of gross it is 88 %.
    assert groups.bars[1].active == pytest.approx(0.88, abs=0.01)
    vision = [bar.active for bar in groups.bars if bar.domain == "vision"]
    assert groups.domains[1].active == pytest.approx(sum(vision) / 2)
    assert groups.missing == {"x/y": "failed"}


def test_a_mean_is_within_one_rung_and_counts_workloads() -> None:
    name = "resnet50-infer-b1-eager"
    cases = [("a", "eager"), ("b", "eager"), ("b", "eager"), ("a", "cudagraph")]
    made = [explain_file(name, workload=one, mode="infer", domain="vision", rung=rung) for one, rung in cases]
    groups = group_breakdowns(made)
    assert [(mean.rung, mean.workloads) for mean in groups.overall] == [("eager", 2), ("cudagraph", 1)]
    assert [(mean.domain, mean.rung) for mean in groups.domains] == [("vision", "eager"), ("vision", "cudagraph")]
