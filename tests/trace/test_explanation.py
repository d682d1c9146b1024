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


def of_a_file(name: str, **about: str) -> Explanation:
    trace = read(RECORDED / f"{name}.json.gz")
    return explain(trace, About(title=name, gross=recorded_gross(trace), **about))


def test_a_recorded_trace_says_its_own_gross() -> None:
    found = of_a_file("resnet50-infer-b1-eager")
    assert found.device == "NVIDIA H200"
    document = json.loads(gzip.decompress((RECORDED / "resnet50-infer-b1-eager.json.gz").read_bytes()))
    assert found.waterfall.gross == round(document["tare_recorded"]["gross_ns"])
    assert not found.waterfall.profiled
    assert found.notes == []


def test_without_gross_only_shares_are_known() -> None:
    trace = read(RECORDED / "mlp-train-eager-stack.json.gz")
    found = explain(trace, About(title="somebody's"))
    assert found.waterfall.profiled
    assert any("gross is not known" in note for note in found.notes)
    assert any("stacks" in note for note in found.notes)


@pytest.mark.parametrize("gross", ["5", None, -1, float("nan"), {}, True])
def test_a_gross_that_is_no_time_is_ignored(gross: object) -> None:
    assert recorded_gross(TraceBuilder(tare_recorded={"gross_ns": gross}).build()) is None


def test_a_cpu_trace_of_our_own_profiler(tmp_path: Path) -> None:
    layer, batch = torch.nn.Linear(64, 64), torch.randn(256, 64)
    path = tmp_path / "cpu.json.gz"
    record(
        lambda: layer(batch).relu(), lambda: None, "cpu", str(path), 5, False, {"tare_profiled": {"case": "none"}}
    )
    trace = read(path)
    assert trace.steps.number.tolist() == [0, 1, 2, 3, 4]
    assert trace.metadata["tare_profiled"] == {"case": "none"}
    assert recording_info(trace) is None
    found = explain(trace, About(title="cpu", gross=1_000_000))
    assert found.breakdown is None
    assert found.waterfall.gross == 1_000_000 == sum(segment.ns for segment in found.waterfall.segments)
    calls = {one.name: one.calls for one in found.host.operators}
    assert calls["aten::addmm"] == found.host.steps
    assert "no device: the host's time by operator" in found.notes


MARKS = {"case": "a/eager", "workload": "a", "mode": "infer", "precision": "fp32", "rung": "eager"}


def test_what_a_trace_of_ours_says_of_itself() -> None:
    mine = recording_info(TraceBuilder(tare_profiled=MARKS | {"resident": {}, "host_ns": 5}).build())
    assert mine == RecordingInfo(case="a/eager", workload="a", mode="infer", precision="fp32", rung="eager")
    work = {"operators": [], "read": 10, "written": 20}
    mine = recording_info(TraceBuilder(tare_profiled=MARKS | {"work": work}).build())
    assert mine is not None
    assert mine.work == Work(operators=[], read=10, written=20)


@pytest.mark.parametrize("marks", [None, 5, [], {}, MARKS | {"mode": 1}, MARKS | {"work": {"operators": [{}]}}])
def test_a_trace_that_only_claims_to_be_ours_says_nothing(marks: object) -> None:
    assert recording_info(TraceBuilder(tare_profiled=marks).build()) is None


def test_a_trace_with_nothing_in_it_is_one_line() -> None:
    with pytest.raises(BadInput, match="nothing to explain"):
        explain(TraceBuilder().build(), About(title="empty"))


def test_losses_are_said() -> None:
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
    found = group_breakdowns(
        [of_a_file(n, workload=n, mode="infer", domain=domain) for n, domain in names.items()], {"x/y": "failed"}
    )
    assert [(mean.domain, mean.workloads) for mean in found.domains] == [("nlp", 1), ("vision", 2)]
    assert [(mean.domain, mean.workloads) for mean in found.overall] == [("all", 3)]
    shares = [(one.active, one.movement, one.idle) for one in found.bars]
    shares += [(one.active, one.movement, one.idle) for one in (*found.domains, *found.overall)]
    assert [sum(one) for one in shares] == pytest.approx([1] * len(shares))
    # Under the profiler the graph's launch takes so long that it computes for 60 % only; of gross it is 88 %.
    assert found.bars[1].active == pytest.approx(0.88, abs=0.01)
    vision = [bar.active for bar in found.bars if bar.domain == "vision"]
    assert found.domains[1].active == pytest.approx(sum(vision) / 2)
    assert found.missing == {"x/y": "failed"}


def test_a_mean_is_of_one_rung_and_counts_workloads() -> None:
    name = "resnet50-infer-b1-eager"
    cases = [("a", "eager"), ("b", "eager"), ("b", "eager"), ("a", "cudagraph")]
    made = [of_a_file(name, workload=one, mode="infer", domain="vision", rung=rung) for one, rung in cases]
    found = group_breakdowns(made)
    assert [(mean.rung, mean.workloads) for mean in found.overall] == [("eager", 2), ("cudagraph", 1)]
    assert [(mean.domain, mean.rung) for mean in found.domains] == [("vision", "eager"), ("vision", "cudagraph")]
