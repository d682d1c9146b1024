"""Every rule on every recorded trace: each finds its inefficiency, and nothing that is not there.

launch-bound and tf32-off are true of many of these small float32 programs and are listed where they are.
"""

from functools import lru_cache
from pathlib import Path

import pytest

from tare.findings.context import Context
from tare.findings.finding import Finding, all_rules, find, severity_of
from tare.trace.read import read
from tare.trace.tables import PINNED

FOLDER = Path(__file__).parents[1] / "trace" / "recorded"
LAUNCHES = {"launch-bound"}
TF32 = {"tf32-off"}

EXPECTED: dict[str, set[str]] = {
    "doctr-infer-b64-eager-side-stream": TF32,
    "good-overlapped-copy": TF32,
    "inefficient-conv-bias-before-bn-channels-first": {"conv-bias-before-norm", "channels-first"},
    "inefficient-exceptions-stack": {"host-bound"} | LAUNCHES,
    "inefficient-fp32-matmul-tf32-off": TF32,
    "inefficient-graph-break": {"graph-breaks"},
    "inefficient-item-each-step": {"repeated-sync"} | LAUNCHES,
    "inefficient-leak": {"memory-growth"} | LAUNCHES,
    "inefficient-loop-optimizer": {"tiny-optimizer-kernels"} | LAUNCHES,
    "inefficient-nonzero-stack": {"hidden-sync"} | LAUNCHES,
    "inefficient-odd-shapes": {"off-multiple-shapes"},
    "inefficient-pageable-copy": {"pageable-copies"} | TF32,
    "inefficient-parameter-ping-pong": {"parameter-ping-pong"} | LAUNCHES,
    "inefficient-pinned-exposed-copy": {"exposed-copies"} | TF32,
    "inefficient-python-between-kernels-stack": {"host-bound"} | LAUNCHES,
    "inefficient-recompile": {"recompilation"},
    "inefficient-scalar-copies": {"scalar-copies"} | LAUNCHES,
    "inefficient-starved-loader": {"loader-starvation"} | LAUNCHES,
    "lstm-train-eager": LAUNCHES,
    "mlp-train-compile": LAUNCHES,
    "mlp-train-eager-stack": LAUNCHES,
    "resnet50-infer-b1-cudagraph": set(),
    "resnet50-infer-b1-eager": LAUNCHES,
    "resnet50-infer-b1-eager-stack": LAUNCHES,
    "resnet50-infer-b1-reduce-overhead": set(),
    "resnet50-infer-b32-eager-nosync": LAUNCHES,
    "resnet50-train-b32-eager-amp": LAUNCHES,
    "resnext50-infer-b32-eager-streams": {"split-convolution"} | TF32,
}


@lru_cache
def context(name: str) -> Context:
    trace = read(FOLDER / f"{name}.json.gz")
    return Context(trace, trace.metadata["tare_recorded"]["gross_ns"] / 1e9)


def found(name: str) -> dict[str, Finding]:
    return {finding.rule: finding for finding in find(context(name))}


def gross(name: str) -> float:
    seconds = context(name).gross_s
    assert seconds is not None
    return seconds


def test_every_recorded_trace_is_expected_here() -> None:
    assert set(EXPECTED) == {path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz")}


@pytest.mark.parametrize("name", EXPECTED)
def test_exactly_these_rules_fire(name: str) -> None:
    assert set(found(name)) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_finding_has_summary_locations_and_remedy(name: str) -> None:
    for finding in found(name).values():
        assert finding.summary
        assert finding.remedy.endswith(".")
        assert finding.evidence
        assert finding.locations
        assert all(location.where and location.count > 0 for location in finding.locations)
        if finding.saving_share is not None:
            assert finding.severity == severity_of(finding.saving_share)
        assert finding.saving_share is None or 0.005 <= finding.saving_share <= 1
        window = context(name).replay
        latest = max(activity.end for activity in window.activities)
        assert all(window.start <= start < end <= max(window.end, latest) for start, end in finding.spans)


def test_the_saving_is_what_the_remedy_saved() -> None:
    """Pairs of recorded programs of which one is the other's remedy: within a factor of two, most within a
    tenth."""
    pairs = {
        ("inefficient-loop-optimizer", "tiny-optimizer-kernels", "mlp-train-eager-stack"),
        ("resnet50-infer-b1-eager", "launch-bound", "resnet50-infer-b1-cudagraph"),
        ("inefficient-starved-loader", "loader-starvation", "mlp-train-eager-stack"),
        ("inefficient-pageable-copy", "pageable-copies", "inefficient-pinned-exposed-copy"),
    }
    for slow, rule, fixed in pairs:
        saving_s, saved_s = found(slow)[rule].saving_s, gross(slow) - gross(fixed)
        assert saving_s is not None
        assert saved_s / 2 < saving_s < 2 * saved_s, (slow, saving_s, saved_s)


def test_with_a_measured_rate_a_bound_becomes_an_estimate() -> None:
    """The pageable copy at the rate that pinned copies had in the trace of the fixed version."""
    fixed = context("inefficient-pinned-exposed-copy").trace.device
    copies = fixed.copies & (fixed.memory == PINNED)
    rate = float((fixed.bytes[copies] / fixed.duration[copies]).mean() * 1e9)
    trace = context("inefficient-pageable-copy").trace
    with_rate = Context(trace, gross("inefficient-pageable-copy"), {"copy:host-to-device:pinned": rate})
    slow = {finding.rule: finding for finding in find(with_rate)}["pageable-copies"]
    assert found("inefficient-pageable-copy")["pageable-copies"].bound == "at most"
    assert slow.bound == ""
    assert slow.saving_s == pytest.approx(
        gross("inefficient-pageable-copy") - gross("inefficient-pinned-exposed-copy"), rel=0.1
    )


def test_a_matrix_rate_gives_the_saving_of_odd_shapes() -> None:
    """137.5 GFLOP at a rate of 700 TFLOP/s need 0.196 of the step's 1.0 ms."""
    odd = find(
        Context(context("inefficient-odd-shapes").trace, gross("inefficient-odd-shapes"), {"matrix:bf16": 700e12})
    )[0]
    assert odd.saving_s == pytest.approx(gross("inefficient-odd-shapes") - 0.196e-3, rel=0.1)
    assert odd.bound == ""


def test_a_matrix_rate_gives_the_saving_of_tf32() -> None:
    """137.4 GFLOP at a rate of 400 TFLOP/s need 0.344 ms: an estimate; without a rate all of it is a bound."""
    name = "inefficient-fp32-matmul-tf32-off"
    slow = find(Context(context(name).trace, gross(name), {"matrix:tf32": 400e12}))[0]
    assert found(name)["tf32-off"].bound == "at most"
    assert slow.bound == ""
    assert slow.saving_s == pytest.approx(gross(name) - 0.344e-3, rel=0.05)


def test_stacks_name_the_line() -> None:
    places = {
        "inefficient-item-each-step": ("repeated-sync", "record_traces.py", "items"),
        "inefficient-scalar-copies": ("scalar-copies", "record_traces.py", "scalars"),
        "inefficient-python-between-kernels-stack": ("host-bound", "record_traces.py", "python_bound"),
        "resnet50-infer-b1-eager-stack": ("launch-bound", "record_traces.py", "infer1 (BatchNorm2d"),
    }
    for name, (rule, file, function) in places.items():
        where = found(name)[rule].locations[0].where
        assert file in where, where
        assert function in where, where


def test_without_stacks_operators_are_named() -> None:
    copy = "aten::to > aten::_to_copy > aten::copy_"
    places = {
        ("inefficient-parameter-ping-pong", "parameter-ping-pong"): {
            (f"{copy}: host to device", 14),
            (f"{copy}: device to host", 14),
        },
        ("inefficient-pinned-exposed-copy", "exposed-copies"): {(f"{copy}: host to device", 1)},
        ("inefficient-fp32-matmul-tf32-off", "tf32-off"): {("1x4096x4096x4096 at aten::matmul > aten::mm", 1)},
        ("inefficient-leak", "launch-bound"): {("aten::linear", 15), ("aten::relu", 6), ("aten::repeat", 1)},
    }
    for (name, rule), expected in places.items():
        assert {(location.where, location.count) for location in found(name)[rule].locations} == expected


def test_what_no_graph_can_hold_is_to_go_first() -> None:
    advice = found("inefficient-item-each-step")["launch-bound"].remedy
    assert advice.startswith("First take out what waits for the device 15 times a step")
    assert "record_traces.py(85): items" in advice
    assert found("resnet50-infer-b1-eager")["launch-bound"].remedy.startswith("Capture the step")


def test_once_is_not_one_times() -> None:
    assert found("inefficient-nonzero-stack")["hidden-sync"].summary.startswith("once a step a value")
    assert found("inefficient-item-each-step")["repeated-sync"].summary.startswith("15 times a step a value")
    assert found("inefficient-graph-break")["graph-breaks"].summary.endswith("once a step")


def test_evidence_has_the_numbers_of_the_program() -> None:
    assert found("inefficient-scalar-copies")["scalar-copies"].evidence["copies_per_step"] == 20
    assert found("inefficient-item-each-step")["repeated-sync"].evidence["waits_per_step"] == 15
    assert found("inefficient-parameter-ping-pong")["parameter-ping-pong"].evidence["tensors_per_step"] == 14
    assert found("inefficient-leak")["memory-growth"].evidence["bytes_per_step"] == 64 * 10 * 1000 * 4
    assert found("inefficient-odd-shapes")["off-multiple-shapes"].locations[0].where.startswith("1x4097x4093x4099")
    copies = found("inefficient-pageable-copy")["pageable-copies"]
    assert copies.evidence["bytes_per_step"] == 4096 * 4096 * 4
    convolutions = found("inefficient-conv-bias-before-bn-channels-first")["conv-bias-before-norm"]
    assert convolutions.evidence["convolutions_per_step"] == 2


def test_two_recordings_of_one_program_do_not_differ() -> None:
    """Rules of two traces: eager recorded with and without stacks, and against itself."""
    pair = [rule for rule in all_rules().values() if rule.pair]
    for before, after in (
        ("resnet50-infer-b1-eager", "resnet50-infer-b1-eager-stack"),
        ("resnet50-infer-b1-eager", "resnet50-infer-b1-eager"),
        ("mlp-train-eager-stack", "mlp-train-eager-stack"),
        ("resnet50-infer-b1-eager", "resnet50-infer-b1-cudagraph"),
    ):
        assert find(context(after), context(before), pair) == [], (before, after)


# At the threshold: of this recording a graph would save 14.9 % of the step, of the other 19 %; launch-bound wants
# 15.
AT_THE_THRESHOLD = {"inefficient-parameter-ping-pong": LAUNCHES}
AGAIN = sorted((Path(__file__).parent / "recorded_again").glob("*.json.gz"))


@pytest.mark.parametrize("path", AGAIN, ids=lambda path: path.name[:-8])
def test_a_second_recording_has_the_same_findings(path: Path) -> None:
    """The same programs recorded by another process: the same rules fire, and those of two traces see nothing."""
    name = path.name.removesuffix(".json.gz")
    trace = read(path)
    again = Context(trace, trace.metadata["tare_recorded"]["gross_ns"] / 1e9)
    rules = {finding.rule for finding in find(again)}
    assert rules ^ EXPECTED[name] <= AT_THE_THRESHOLD.get(name, set())
    pair = [rule for rule in all_rules().values() if rule.pair]
    assert find(again, context(name), pair) == []
    assert find(context(name), again, pair) == []


def test_a_convolution_cut_by_its_groups_is_named_by_its_shapes() -> None:
    """Sixteen of ResNeXt-50's, in 32 groups each. The saving is a part of their time, and a bound."""
    finding = found("resnext50-infer-b32-eager-streams")["split-convolution"]
    assert (finding.evidence["convolutions_per_step"], finding.evidence["most_kernels"]) == (16, 32)
    assert any(location.where.endswith(": 32x128x56x56 by 128x4x3x3") for location in finding.locations)
    assert finding.saving_share is not None
    assert 0 < finding.saving_share < float(finding.evidence["device_share"])
    assert finding.bound == "at most"


def test_the_saving_of_convolutions_behind_a_transform_is_what_tf32_saved() -> None:
    """The step took 2.72 ms with TF32, instead of 74.7. Transforms of filters run on a side stream, where a kernel
    starts during the last blocks of another: its launch is not late."""
    name = "doctr-infer-b64-eager-side-stream"
    finding = next(iter(find(Context(context(name).trace, gross(name), {"matrix:tf32": 355e12}))))
    assert finding.rule == "tf32-off"
    assert finding.saving_share == pytest.approx(0.964, abs=0.02)
