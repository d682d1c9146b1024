"""What is different between two traces, on traces with known differences."""

from pathlib import Path

import pytest
from traces import TraceBuilder

from tare.findings.changes import Change, changes
from tare.findings.scene import Scene
from tare.trace.read import read

RECORDED = Path(__file__).parents[1] / "trace" / "recorded"


def made(**kernels: tuple[int, float]) -> Scene:
    """A step in which each kernel is launched so often and lasts so many µs, by an operator of its name."""
    trace = TraceBuilder()
    trace.step(0, 1000)
    at = 0.0
    for name, (count, length) in kernels.items():
        for _ in range(count):
            trace.op(f"aten::{name}", at, at + 4)
            trace.launch(at + 1, at + 2, at + 3, at + 3 + length, name)
            at += length + 10
    return Scene(trace.build())


def by_name(found: list[Change]) -> dict[str, Change]:
    return {change.name: change for change in found}


def test_appeared_vanished_slower_faster_and_unchanged() -> None:
    before = made(old=(2, 10), same=(3, 20), slow=(1, 50), fast=(1, 80), often=(1, 30))
    after = made(new=(1, 15), same=(3, 20.5), slow=(1, 90), fast=(1, 40), often=(3, 30))
    found = changes(before, after)
    kernels = by_name(found.kernels)
    assert {name: change.status for name, change in kernels.items()} == {
        "old": "vanished", "new": "appeared", "slow": "slower", "fast": "faster", "often": "more calls",
    }  # fmt: skip
    assert kernels["slow"].difference_s == pytest.approx(40e-6)
    assert (kernels["often"].before_calls, kernels["often"].after_calls) == (1, 3)
    assert found.kernels[0].name == "often"
    operators = by_name(found.operators)
    assert operators["aten::slow"].status == "slower"
    assert operators["aten::slow"].clock == "device"
    assert found.before_device_s == pytest.approx(240e-6)


def test_a_trace_differs_from_itself_in_nothing() -> None:
    scene = Scene(read(RECORDED / "mlp-train-eager-stack.json.gz"))
    found = changes(scene, scene)
    assert (found.kernels, found.operators, found.findings) == ([], [], [])


def test_a_graph_launches_the_kernels_of_the_eager_step() -> None:
    """ResNet-50 eager and as a CUDA graph: no kernel differs, and the operators have all gone."""
    eager, graph = (Scene(read(RECORDED / f"resnet50-infer-b1-{rung}.json.gz")) for rung in ("eager", "cudagraph"))
    found = changes(eager, graph)
    assert found.kernels == []
    assert {change.status for change in found.operators} == {"vanished"}


def test_compiling_replaces_kernels_by_fused_ones() -> None:
    eager, compiled = (Scene(read(RECORDED / f"mlp-train-{rung}.json.gz")) for rung in ("eager-stack", "compile"))
    appeared = {change.name for change in changes(eager, compiled).kernels if change.status == "appeared"}
    assert "triton_poi_fused_addmm_relu_0" in appeared
