"""What is different between two traces, on traces with known differences."""

import pytest
from traces import RECORDED, TraceBuilder

from tare.findings.changes import Change, changes
from tare.findings.context import Scene
from tare.trace.explanation import About, explain, recorded_gross
from tare.trace.read import read


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


@pytest.mark.parametrize("name", ["resnet50-infer-b1-cudagraph", "habit-parameter-ping-pong", "mlp-train-compile"])
def test_diff_and_explain_agree_and_the_step_contains_its_parts(name: str) -> None:
    trace = read(RECORDED / f"{name}.json.gz")
    gross = recorded_gross(trace)
    assert gross is not None
    shown = explain(trace, About(title=name, gross=gross)).waterfall
    nothing = TraceBuilder()
    nothing.step(0, 1)
    found = changes(Scene(trace, gross / 1e9), Scene(nothing.build(), 1e-6))
    assert found.before_step_s == shown.gross / 1e9 == gross / 1e9
    assert found.before_device_s == shown.net / 1e9
    assert not found.profiled
    host = [one.before_s for one in found.operators if one.clock == "host"]
    assert sum(host) <= found.before_step_s
    assert sum(one.before_s for one in found.kernels) <= found.before_device_s * (1 + 1e-9)


def test_host_times_are_shares_of_gross_on_a_cpu() -> None:
    """A recorded step of 200 µs with an operator of 50, and gross is 100: it takes 25, and another with 80 of them
    40. Where one side does not know its gross, both are as they were recorded."""

    def scene(length: float, gross_s: float | None) -> Scene:
        trace = TraceBuilder()
        trace.step(0, 200)
        trace.op("aten::a", 0, length)
        return Scene(trace.build(), gross_s)

    found = changes(scene(50, 100e-6), scene(80, 100e-6))
    assert (found.before_step_s, found.profiled, found.has_device) == (100e-6, False, False)
    (one,) = found.operators
    assert (one.status, one.clock) == ("slower", "host")
    assert [one.before_s, one.after_s] == pytest.approx([25e-6, 40e-6])
    found = changes(scene(50, 100e-6), scene(80, None))
    assert (found.before_step_s, found.profiled) == (200e-6, True)
    assert found.operators[0].before_s == pytest.approx(50e-6)
