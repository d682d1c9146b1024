"""Advice that was wrong on traces from the wild."""

from typing import Any

import pytest
from serving import PLAN, Scheduled, served, sglang, vllm
from synthetic import SIMT, kernels, seen, steps
from traces import TraceBuilder

from tare.findings.context import Context


def split(device: dict[str, Any]) -> TraceBuilder:
    def convolution(trace: TraceBuilder, at: float) -> None:
        inputs = {"Input Dims": [[32, 64, 56, 56], [64, 2, 3, 3]], "Input type": ["float", "float"]}
        trace.op("aten::convolution", at + 5, at + 100, **inputs)
        for i in range(32):
            trace.launch(at + 6 + 2 * i, at + 7 + 2 * i, at + 10 + 25 * i, at + 35 + 25 * i, SIMT)

    return steps(convolution, deviceProperties=[device])


@pytest.mark.parametrize(
    ("device", "has"),
    [
        ({"id": 0, "name": "NVIDIA H200", "computeMajor": 9}, True),
        ({"id": 0, "name": "Tesla V100", "computeMajor": 7}, False),
        ({"id": 0, "name": "AMD Instinct MI300X", "computeMajor": 9}, False),
    ],
)
def test_tf32_is_advised_where_the_device_has_it(device: dict[str, Any], has: bool) -> None:
    found = seen("split-convolution", split(device))
    assert found is not None
    assert ("Allow TF32" in found.remedy) == has
    assert "half precision" in found.remedy


@pytest.mark.parametrize(("launches_after", "where"), [(True, "in the middle"), (False, "at the end")])
def test_where_in_the_step_a_value_is_fetched(launches_after: bool, where: str) -> None:
    def fetching(trace: TraceBuilder, at: float) -> None:
        kernels(trace, at)
        trace.op("aten::item", at + 300, at + 720)
        copy = trace.call("cudaMemcpyAsync", at + 304, at + 308)
        trace.copy("DtoH (Device -> Pinned)", at + 310, at + 312, copy, 4)
        trace.call("cudaStreamSynchronize", at + 310, at + 710)
        if launches_after:
            kernels(trace, at + 800)

    found = seen("hidden-sync", steps(fetching))
    assert found is not None
    assert f"is waited for {where} of the step" in found.summary


@pytest.mark.parametrize("place", ["last", "before an event", "between steps"])
def test_the_harness_own_wait_is_not_to_be_removed(place: str) -> None:
    """A benchmark synchronises the device after each step, and then may record an event."""
    trace = TraceBuilder()
    for at in (0, 1100):
        trace.step(at, at + 1000)
        kernels(trace, at, count=40, every=20, length=5)
        start = at + 1010 if place == "between steps" else at + 900
        trace.call("cudaDeviceSynchronize", start, start + 60)
        if place == "before an event":
            trace.call("cudaEventRecord", start + 70, start + 72)
    found = seen("launch-bound", trace)
    assert found is not None
    assert "First take out what waits" not in found.remedy
    assert len(Context(trace.build()).replay.profiler_syncs) >= 1


def test_host_bound_names_the_function_that_takes_the_time() -> None:
    """In its middle the stretch is in a wrapper for a moment."""

    def hosting(trace: TraceBuilder, at: float) -> None:
        trace.frame("train.py(3): step", at, at + 990)
        kernels(trace, at)
        trace.frame("train.py(40): augment", at + 150, at + 480)
        trace.frame("<built-in method sort of list object at 0x1>", at + 155, at + 478)
        trace.frame("train.py(40): augment", at + 500, at + 800)
        kernels(trace, at + 850)

    found = seen("host-bound", steps(hosting))
    assert found is not None
    assert found.locations[0].where.startswith("train.py(40): augment")


@pytest.mark.parametrize("stacks", [True, False])
def test_a_server_that_waits_for_requests_is_not_host_bound(stacks: bool) -> None:
    """Of 3.3 ms it waits for 2; without stacks the reason is not known."""
    assert seen("host-bound", served(vllm if stacks else sglang, stacks=stacks)) is None


@pytest.mark.parametrize("stacks", [True, False])
def test_no_graph_removes_the_wait_for_requests(stacks: bool) -> None:
    """The host waits for 2 of 3.5 ms. Of the rest the device needs 1 ms, which may run while the host waits."""
    found = seen("launch-bound", served(vllm if stacks else sglang, stacks=stacks))
    assert found is None or (found.saving_s or 0) < 1.1e-3


def test_a_server_whose_host_works_between_iterations_is_host_bound() -> None:
    plan = [Scheduled(one.at, one.prefills, one.read, one.decodes) for one in PLAN]
    found = seen("host-bound", served(vllm, plan))
    assert found is not None
    assert found.saving_s == pytest.approx(2.0e-3, rel=0.1)
