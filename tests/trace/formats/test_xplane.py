"""Profiles of JAX and TensorFlow: recorded ones on a CPU, and generated ones of GPUs and TPUs."""

import gzip
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from traces import RECORDED, TraceBuilder
from xspaces import PlaneWriter, Recorded, write_chrome, write_xspace, xspace

from tare.errors import BadInput
from tare.measure.xla_profiler import step_profile
from tare.system.xspace import XSpace
from tare.trace import tables
from tare.trace.breakdown import breakdown
from tare.trace.explanation import About, explain
from tare.trace.host_time import HostTime, host_time
from tare.trace.intervals import covered_length
from tare.trace.metadata import device_name, has_tf32
from tare.trace.operator_table import operator_table
from tare.trace.read import read
from tare.trace.tables import Trace

XLA = RECORDED / "xla"
PROFILES = ["jax-cpu.xplane.pb.gz", "tensorflow-cpu.xplane.pb.gz"]
NS, US = 1000, 1_000_000


def time_of(trace: Trace) -> HostTime:
    time = host_time(trace)
    assert time is not None
    assert time.window == time.computed + time.dispatch + time.outside == sum(o.self_time for o in time.operators)
    return time


@pytest.mark.parametrize("name", PROFILES)
def test_a_recorded_profile_of_a_cpu(name: str) -> None:
    trace = read(XLA / name)
    assert trace.steps.number.tolist() == [0, 1, 2, 3]
    assert (trace.has_device, trace.skipped) == (False, 0)
    time = time_of(trace)
    # The host computes where an operation runs on any thread.
    covered = covered_length(trace.operators.intervals(), trace.steps.start, trace.steps.end)
    assert time.computed == pytest.approx(int(covered.sum()), rel=0.01)
    # Net is read in another way, and without the first step.
    net = step_profile(XSpace(XLA / name).planes, on_device=False).net
    assert net.share == pytest.approx(float(np.median((covered / trace.steps.duration)[1:])), rel=1e-3)
    assert explain(trace, About(title="t")).notes


@pytest.mark.parametrize(
    ("name", "operations", "runtime"),
    [
        (
            PROFILES[0],
            {"dot.1", "wrapped_tanh", "multiply_subtract_fusion"},
            {"PjitFunction(train)", "ParseArguments"},
        ),
        (PROFILES[1], {"matmul:_MklMatMul", "Tanh:Tanh"}, {"EagerExecute", "KernelAndDeviceFunc::Run"}),
    ],
)
def test_operations_compute_and_the_runtime_does_not(name: str, operations: set[str], runtime: set[str]) -> None:
    trace = read(XLA / name)
    assert operations <= {trace.name(trace.operators, row) for row in range(len(trace.operators))}
    assert runtime <= {trace.name(trace.calls, row) for row in range(len(trace.calls))}
    assert not trace.calls.launches.any()
    calls = {operator.name: operator.calls for operator in time_of(trace).operators}
    assert all(calls[operation] == 4 for operation in operations)


def test_the_chrome_trace_beside_a_profile_says_the_same() -> None:
    profile, chrome = read(XLA / PROFILES[0]), read(XLA / "jax-cpu.trace.json.gz")
    assert time_of(chrome) == time_of(profile)
    assert len(chrome.frames) == len(profile.frames) > 0
    assert {"tree_util.py(101): tree_leaves", "<built-in function isinstance>"} <= set(profile.names)


def gpu_program() -> TraceBuilder:
    trace = TraceBuilder()
    for at in (0, 100):
        trace.step(at, at + 90)
        trace.op("PjitFunction(train)", at + 1, at + 60)
        trace.launch(at + 5, at + 9, at + 20, at + 50, "loop_fusion_kernel")
        trace.launch(at + 10, at + 14, at + 50, at + 55, "gemm")
    return trace


def test_a_launch_lies_in_the_operation_that_its_kernel_belongs_to(tmp_path: Path) -> None:
    trace = read(write_xspace(gpu_program(), tmp_path / "p", operation="fusion.7"))
    assert [trace.name(trace.operators, row) for row in range(len(trace.operators))] == ["fusion.7"] * 4
    table = {operator.name: operator for operator in operator_table(trace)}
    assert (table["fusion.7"].calls, table["fusion.7"].device_total) == (4, 70_000)
    launching = trace.calls.take(trace.calls.launches)
    assert [trace.name(launching, row) for row in range(4)] == ["LaunchKernel"] * 4
    assert "PjitFunction(train)" in {trace.name(trace.calls, row) for row in range(len(trace.calls))}
    assert device_name(trace) == "Test GPU"
    assert has_tf32(trace)


def test_a_call_with_several_kernels_launches_a_graph_of_the_program(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.step(0, 100)
    launched = trace.call("cuGraphLaunch", 5, 10)
    for i, name in enumerate(("first", "second")):
        trace.kernel(name, 20 + 10 * i, 30 + 10 * i, launched)
    path = write_xspace(trace, tmp_path / "p")
    data = path.read_bytes().replace(b"fusion", b"fusioX", 1)
    path.write_bytes(data)
    parts = breakdown(read(path))
    assert parts is not None
    assert (parts.graph_launches, parts.graph_kernels, parts.orphans) == (1, 2, 0)


def planes(
    tmp_path: Path, device: list[Recorded], host: list[Recorded], line: str = "Stream #7(Compute)"
) -> Trace:
    gpu, cpu = PlaneWriter("/device:GPU:1"), PlaneWriter("/host:CPU")
    gpu.line(7, line, device)
    cpu.line(3, "python", host)
    path = tmp_path / "p"
    path.write_bytes(xspace([gpu, cpu]))
    return read(path)


def kernel(name: str, start: int, length: int, correlation: int, **stats: Any) -> Recorded:
    own = {
        "correlation_id": correlation,
        "hlo_module": "jit_f",
        "kernel_details": "regs:1 grid:2,1,1 block:32,1,1",
    }
    return Recorded(name, start * US, length * US, own | stats)


def test_kernels_of_different_operations_in_one_graph_belong_to_the_program(tmp_path: Path) -> None:
    work = [kernel("a", 20, 5, 1, hlo_op="dot.1"), kernel("b", 25, 5, 1, hlo_op="dot.2")]
    trace = planes(
        tmp_path, work, [Recorded("cuGraphLaunch (CudaGraph:5)", 5 * US, 6 * US, {"correlation_id": 1})]
    )
    assert trace.calls.kind.tolist() == [tables.GRAPH]
    assert [trace.name(trace.operators, row) for row in trace.calls.operator.tolist()] == ["jit_f"]


def test_what_no_stream_executes_is_no_work(tmp_path: Path) -> None:
    notes = [Recorded(name, 10 * US, 5 * US) for name in ("MemoryAlloc", "MemoryResidency", "MemoryFree")]
    trace = planes(tmp_path, [kernel("a", 1, 5, 1), *notes], [])
    assert trace.device.duration.tolist() == [5000]
    assert not len(planes(tmp_path, [kernel("a", 1, 5, 1)], [], "XLA Modules").device)


def test_copies_without_their_memory_and_memsets(tmp_path: Path) -> None:
    """ROCm's collector does not know what memory it is."""
    details = {"memcpy_details": "kind:Unknown size:4096 dest:0 async:1", "correlation_id": 3}
    cleared = {"Memset_details": "kind:device num_bytes:64 async:1"}
    work = [Recorded("MemcpyD2H", 0, 5 * US, details), Recorded("Memset", 6 * US, US, cleared)]
    device = planes(tmp_path, work, []).device
    assert (device.kind.tolist(), device.bytes.tolist()) == ([tables.COPY, tables.MEMSET], [4096, 64])
    assert (device.direction[0], device.memory[0], device.device[0]) == (tables.DEVICE_TO_HOST, -1, 1)


def test_a_runtime_that_launches_nothing_is_no_launch(tmp_path: Path) -> None:
    """A name is not enough: only a call with a correlation id can have launched work."""
    host = [
        Recorded("LaunchThunk", 5 * US, 9 * US),
        Recorded("XlaLauncher::Free", 15 * US, 9 * US),
        Recorded("void dot_kernel(float*)", 30 * US, 2 * US, {"correlation_id": 1}),
        Recorded("cuStreamSynchronize", 33 * US, 40 * US, {"correlation_id": 2}),
    ]
    trace = planes(tmp_path, [kernel("void dot_kernel(float*)", 40, 30, 1, hlo_op="dot.1")], host)
    launches = trace.calls.take(trace.calls.launches)
    assert [trace.name(launches, row) for row in range(len(launches))] == ["LaunchKernel"]
    assert tables.SYNC in trace.calls.kind
    parts = breakdown(trace)
    assert parts is not None
    assert parts.lost_launches == 0


def test_a_loop_of_a_tpu_counts_by_its_body(tmp_path: Path) -> None:
    tpu, cpu = PlaneWriter("/device:TPU:0"), PlaneWriter("/host:CPU")
    operations = [Recorded("while", 0, 100 * US)] + [Recorded(f"dot.{i}", 10 * i * US, 8 * US) for i in range(5)]
    tpu.line(1, "Steps", [Recorded("0", 0, 200 * US)])
    tpu.line(2, "XLA Modules", [Recorded("jit_train", 0, 200 * US)])
    tpu.line(3, "XLA Ops", [*operations, Recorded("copy.1", 120 * US, 10 * US)])
    cpu.line(1, "python", [Recorded("train", 0, 200 * US, {"step_num": 5, "_r": 1})])
    path = tmp_path / "p"
    path.write_bytes(xspace([tpu, cpu]))
    parts = breakdown(read(path))
    assert parts is not None
    assert (parts.window, parts.active, parts.steps[0].kernels) == (200_000, 50_000, 6)


def test_lines_may_count_from_1970(tmp_path: Path) -> None:
    gpu, cpu = PlaneWriter("/device:GPU:0"), PlaneWriter("/host:CPU")
    gpu.line(7, "Stream #7", [kernel("a", 10, 5, 1)], start_ns=1_795_050_682_918_382_173)
    cpu.line(3, "python", [Recorded("a", 0, 2 * US, {"correlation_id": 1})], start_ns=1_795_050_682_918_382_172)
    path = tmp_path / "p"
    path.write_bytes(xspace([gpu, cpu]))
    trace = read(path)
    assert (trace.device.start.tolist(), trace.calls.start.tolist()) == ([10_001], [0])


def test_a_profile_may_be_compressed_and_have_any_name(tmp_path: Path) -> None:
    plain, packed = (write_xspace(gpu_program(), tmp_path / name) for name in ("renamed", "p.xplane.pb.gz"))
    assert packed.read_bytes()[:2] == b"\x1f\x8b"
    assert breakdown(read(plain)) == breakdown(read(packed))


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("packed", [False, True])
def test_a_truncated_profile_is_refused_in_one_line(tmp_path: Path, share: float, packed: bool) -> None:
    data = write_xspace(gpu_program(), tmp_path / "p").read_bytes()
    data = gzip.compress(data) if packed else data
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(data[: round(len(data) * share)])
    with pytest.raises(BadInput) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(at=st.integers(0, 4000), junk=st.binary(min_size=1, max_size=8))
def test_a_damaged_profile_is_read_or_refused(tmp_path: Path, at: int, junk: bytes) -> None:
    source = tmp_path / "whole"
    if not source.exists():
        write_xspace(gpu_program(), source)
    data = source.read_bytes()
    at %= len(data)
    path = tmp_path / "damaged"
    path.write_bytes(data[:at] + junk + data[at + len(junk) :])
    with suppress(BadInput):
        explain(read(path), About(title="t"))


def test_numbers_in_a_chrome_trace_are_texts(tmp_path: Path) -> None:
    trace = read(write_chrome(write_xspace(gpu_program(), tmp_path / "p"), tmp_path / "p.json.gz"))
    assert trace.steps.number.tolist() == [1, 2]
    assert (trace.device.call >= 0).all()
    assert trace.device.registers.tolist() == [32] * 4
