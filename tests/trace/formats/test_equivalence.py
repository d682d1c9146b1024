"""One timeline, written by the profilers whose files are read: the same figures, whoever recorded it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nsight_exports import write_nsight
from rocprof_files import write_pftrace_json, write_rocprof, write_rocprof_v1, write_rocprof_v2
from traces import TraceBuilder
from xspaces import write_chrome, write_xspace

from tare.findings.diagnosis import diagnose
from tare.trace.breakdown import breakdown
from tare.trace.explanation import About, explain
from tare.trace.flame import flame
from tare.trace.idle import explain_idle
from tare.trace.read import read, read_ranks
from tare.trace.tables import Trace

Write = Callable[[TraceBuilder, Path], Path]


def timeline(memset: bool = True) -> TraceBuilder:
    """Two steps of 200 us: a copy to the device, kernels on two streams that overlap, and a copy back."""
    builder = TraceBuilder()
    for at in (0, 200):
        builder.step(at, at + 200)
        copied = builder.call("cudaMemcpyAsync", at + 5, at + 10)
        builder.copy("HtoD (Pageable -> Device)", at + 12, at + 30, copied, 4096)
        if memset:
            cleared = builder.call("cudaMemsetAsync", at + 11, at + 13)
            builder.memset(at + 30, at + 32, cleared, 64)
        builder.op("aten::mm", at + 20, at + 45)
        builder.launch(at + 25, at + 30, at + 40, at + 90, "gemm<float>(int)", grid=[4, 2, 1], block=[64, 2, 1])
        builder.launch(at + 50, at + 55, at + 70, at + 120, "add", stream=8)
        builder.launch(at + 60, at + 66, at + 130, at + 140, "add", call="cuLaunchKernel")
        fetched = builder.call("cudaMemcpyAsync", at + 142, at + 145)
        builder.copy("DtoH (Device -> Pinned)", at + 150, at + 160, fetched, 256)
        builder.call("cudaStreamSynchronize", at + 146, at + 165)
    return builder


def chrome(trace: TraceBuilder, path: Path) -> Path:
    return write_chrome(write_xspace(trace, path.with_suffix(".pb")), path)


WITH_MEMSETS: dict[str, Write] = {
    "Nsight Systems": write_nsight,
    "an older Nsight Systems": lambda trace, path: write_nsight(
        trace, path, ("globalPid", "mangledName", "ENUM_CUDA_MEMCPY_OPER", "ENUM_CUDA_MEM_KIND", "TARGET_INFO_GPU")
    ),
    "XPlane": write_xspace,
    "a Chrome trace of XLA": chrome,
}
# ROCm clears memory by kernels.
WITHOUT_MEMSETS: dict[str, Write] = {
    "rocprofv3": write_rocprof,
    "rocprof v1": write_rocprof_v1,
    "rocprof v2": write_rocprof_v2,
    "rocprofv3's pftrace": write_pftrace_json,
}
EVERY = [(name, write, True) for name, write in WITH_MEMSETS.items()]
EVERY += [(name, write, False) for name, write in WITHOUT_MEMSETS.items()]


def figures(trace: Trace) -> dict[str, Any]:
    """What the breakdown says, without what some profilers do not record: streams, pinned memory, sizes."""
    parts = breakdown(trace)
    assert parts is not None
    simple = ("window", "active", "movement", "idle", "overlapped", "launching", "orphans", "lost_launches")
    names = [*simple, "launched_before", "graph_launches", "graph_kernels"]
    copies = sorted((copy.direction, copy.count, copy.busy, copy.exposed) for copy in parts.copies)
    return {name: getattr(parts, name) for name in names} | {"steps": parts.steps, "copies": copies}


def test_the_timeline_itself() -> None:
    """Known by adding up: 50 + 30 + 10 us of kernels and 2 of a memset; copies of 18 and 10 us; the rest idle."""
    parts = figures(timeline().build())
    assert (parts["active"], parts["movement"], parts["window"]) == (2 * 92_000, 2 * 28_000, 2 * 200_000)
    assert parts["idle"] == 400_000 - 2 * 120_000
    assert parts["copies"] == [("device to host", 2, 20_000, 20_000), ("host to device", 2, 36_000, 36_000)]
    assert [(step.kernels, step.launches) for step in parts["steps"]] == [(3, 3), (3, 3)]


@pytest.mark.parametrize(("write", "memsets"), [pytest.param(w, m, id=name) for name, w, m in EVERY])
def test_every_profiler_gives_the_same_breakdown(tmp_path: Path, write: Write, memsets: bool) -> None:
    builder = timeline(memsets)
    trace = read(write(builder, tmp_path / "profile"))
    expected = builder.build()
    found, wanted = figures(trace), figures(expected)
    if write is write_rocprof_v2:
        # It names no stream.
        assert (found.pop("overlapped"), wanted.pop("overlapped")) == (0, 2 * 20_000)
    assert found == wanted
    assert trace.steps.number.tolist() == expected.steps.number.tolist()
    assert sorted(trace.device.duration.tolist()) == sorted(expected.device.duration.tolist())
    assert (trace.device.call >= 0).all()
    assert trace.skipped == 0
    idle, usual = explain_idle(trace), explain_idle(expected)
    assert idle is not None
    assert usual is not None
    # Who waits for the device is in the calls; operators are not in every file.
    for cause in ("launch call", "device-side waiting", "synchronisation", "tail"):
        assert [c.idle for c in idle.causes if c.cause == cause] == [
            c.idle for c in usual.causes if c.cause == cause
        ]
    assert len(read_ranks(tmp_path / "profile")) == 1


@pytest.mark.parametrize("write", WITH_MEMSETS.values(), ids=WITH_MEMSETS)
def test_what_cupti_says_of_the_work(tmp_path: Path, write: Write) -> None:
    trace, expected = read(write(timeline(), tmp_path / "profile")), timeline().build()
    work, wanted = trace.device, expected.device
    assert [trace.name(work, row) for row in range(len(work))] == [
        expected.name(wanted, row) for row in range(len(wanted))
    ]
    for column in ("start", "end", "kind", "device", "stream", "bytes", "direction", "memory", "grid", "block"):
        assert np.array_equal(getattr(work, column), getattr(wanted, column)), column
    kernels = work.kernels
    assert (work.registers[kernels].tolist(), work.shared[kernels].tolist()) == ([32] * 6, [0] * 6)
    calls = [trace.name(trace.calls, row) for row in work.call.tolist()]
    assert all("Launch" in name for name, kernel in zip(calls, kernels.tolist(), strict=True) if kernel)


@pytest.mark.parametrize(("write", "memsets"), [pytest.param(w, m, id=name) for name, w, m in EVERY])
def test_everything_that_is_made_of_a_trace_can_be_made_of_it(tmp_path: Path, write: Write, memsets: bool) -> None:
    """Every rule, the tables and the flame graph, also where a file has no operators."""
    trace = read(write(timeline(memsets), tmp_path / "profile"))
    diagnosis = diagnose(trace)
    assert diagnosis.memory is None
    assert sum(kernel.calls for kernel in diagnosis.kernels) == len(trace.device)
    assert diagnosis.operators
    assert sum(weight for _, weight in flame(trace).device) == int(trace.device.duration.sum())
    explanation = explain(trace, About(title="t"))
    assert sum(segment.ns for segment in explanation.waterfall.segments) == explanation.waterfall.gross
