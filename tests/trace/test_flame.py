"""Flame graphs: stacks of hand-made traces with known times, in both formats."""

import json
from pathlib import Path

import pytest
from traces import RECORDED, TraceBuilder

from tare.report.flame import folded, speedscope, write_flame
from tare.trace.flame import flame
from tare.trace.host_time import OUTSIDE, host_time
from tare.trace.read import read


def program() -> TraceBuilder:
    builder = TraceBuilder()
    for at in (0, 100):
        builder.step(at, at + 100)
        builder.frame("train.py(3): step", at + 5, at + 95)
        builder.frame("nn.Module: Linear_0", at + 10, at + 60)
        builder.op("aten::mm", at + 20, at + 50)
        builder.launch(at + 30, at + 40, at + 45, at + 75, kernel="void gemm<float>(x)")
    # Outside of any step.
    builder.op("aten::later", 250, 260)
    return builder


def test_stacks_of_host_and_device() -> None:
    stacks = flame(program().build())
    outer = ("train.py(3): step", "nn.Module: Linear_0", "aten::mm", "cudaLaunchKernel")
    assert dict(stacks.host) == {outer[:1]: 80_000, outer[:2]: 40_000, outer[:3]: 40_000, outer: 20_000}
    assert dict(stacks.device) == {(*outer, "gemm"): 60_000}


def test_folded_stacks() -> None:
    lines = folded(flame(program().build())).splitlines()
    assert lines[0] == "host;train.py(3): step 80000"
    assert lines[-1] == "device;train.py(3): step;nn.Module: Linear_0;aten::mm;cudaLaunchKernel;gemm 60000"


def test_speedscope(tmp_path: Path) -> None:
    path = tmp_path / "flame.json"
    write_flame(flame(program().build()), "a step", path)
    document = json.loads(path.read_text())
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    for profile in document["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] == sum(profile["weights"])
    device = document["profiles"][1]
    assert [frames[i] for i in device["samples"][0]][-1] == "gemm"


@pytest.mark.parametrize("name", ["mlp-train-eager-stack", "resnet50-infer-b1-eager"])
def test_the_hosts_time_is_that_of_its_threads(name: str) -> None:
    """On one thread, the stacks add up to the time in operators; frames add what is outside of them."""
    trace = read(RECORDED / f"{name}.json.gz")
    stacks, time = flame(trace), host_time(trace)
    assert time is not None
    outside = next(one.self_time for one in time.operators if one.name == OUTSIDE)
    assert sum(ns for _, ns in stacks.host) >= 0.95 * (time.window - outside)
    assert sum(ns for _, ns in stacks.device) == pytest.approx(int(trace.device.duration.sum()), rel=0.02)
    assert speedscope(stacks, name)["profiles"][0]["endValue"] > 0


def test_a_trace_without_a_host() -> None:
    builder = program()
    builder.events = [event for event in builder.events if event["cat"] == "kernel"]
    assert flame(builder.build()) == ([], [])
