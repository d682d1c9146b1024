"""Exports of Nsight Systems: the rows that a database becomes, in several versions of its schema."""

import gzip
import json
from pathlib import Path

import pytest
from nsight_exports import PUSH_POP, NsightWriter, global_id, write_nsight
from traces import TraceBuilder

from tare.errors import BadInput
from tare.trace import tables
from tare.trace.breakdown import breakdown
from tare.trace.metadata import device_name, has_tf32
from tare.trace.read import read, read_ranks

CALLS, RANGES, GRAPHS, COPIES = (
    "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUPTI_ACTIVITY_KIND_MEMCPY",
)  # fmt: skip


def step() -> TraceBuilder:
    """A step in which a product is launched, with the shapes and the sequence number that emit_nvtx writes."""
    trace = TraceBuilder()
    trace.step(0, 100, number=4)
    trace.op("aten::linear", 5, 40, **{"Sequence number": 12})
    trace.op("aten::mm", 10, 35, **{"Sequence number": 12, "Input Dims": [[8, 3], [3, 4]]})
    trace.annotation("forward", 2, 60)
    trace.launch(12, 15, 20, 30.125, "void gemm<float>(float*)", grid=[4, 2, 1])
    trace.call("cudaStreamSynchronize", 40, 50)
    return trace


def test_ranges_of_emit_nvtx_are_operators_and_others_are_annotations(tmp_path: Path) -> None:
    trace = read(write_nsight(step(), tmp_path / "report.sqlite"))
    operators = trace.operators
    assert [trace.name(operators, row) for row in range(2)] == ["aten::linear", "aten::mm"]
    assert (operators.parent.tolist(), operators.sequence.tolist()) == ([-1, 0], [12, 12])
    assert json.loads(trace.inputs_of(1).dims) == [[8, 3], [3, 4]]
    assert trace.inputs_of(0).dims == b""
    assert (trace.steps.number.tolist(), trace.steps.end.tolist()) == ([4], [100_000])
    assert "forward" in [trace.name(trace.annotations, row) for row in range(len(trace.annotations))]
    assert [trace.name(trace.calls, row) for row in range(2)] == ["cudaLaunchKernel", "cudaStreamSynchronize"]
    assert trace.calls.kind.tolist() == [tables.LAUNCH, tables.SYNC]
    assert trace.calls.operator.tolist() == [1, -1]
    assert trace.device.duration.tolist() == [10_125]
    assert (trace.threads[int(trace.calls.thread[0])], trace.skipped) == ("100/100", 0)
    assert device_name(trace) == "Test GPU"
    assert has_tf32(trace)


@pytest.mark.parametrize(
    ("text", "step_number"),
    [
        ("step 7", 7), ("Step_7", 7), ("iteration 7", 7), ("iter7", 7), ("train step #7", 7), ("global_step=7", 7),
        ("ProfilerStep#7", 7), ("batch: 7", 7), ("footstep 7", None), ("step", None), ("step 7 forward", None),
    ],
)  # fmt: skip
def test_which_ranges_are_steps(tmp_path: Path, text: str, step_number: int | None) -> None:
    trace = TraceBuilder()
    trace.launch(5, 8, 10, 20)
    writer = NsightWriter(tmp_path / "report.sqlite")
    writer.take(trace)
    writer.insert(RANGES, start=0, end=90_000, eventType=PUSH_POP, text=text, globalTid=global_id(100, 100))
    found = read(writer.path).steps
    assert found.number.tolist() == [-1 if step_number is None else step_number]
    assert found.marked == (step_number is not None)


@pytest.mark.parametrize(
    "omit",
    [
        ("registersPerThread", "staticSharedMemory"),
        ("demangledName",),
        ("NVTX_EVENTS", "TARGET_INFO_GPU"),
        ("textId", "eventClass"),
        ("correlationId",),
        ("StringIds",),
    ],
)
def test_a_file_without_some_tables_and_columns_is_read(tmp_path: Path, omit: tuple[str, ...]) -> None:
    trace = read(write_nsight(step(), tmp_path / "report.sqlite", omit))
    assert (len(trace.device), len(trace.calls)) == (1, 2)
    assert trace.device.grid.tolist() == [[4, 2, 1]]
    name = {"demangledName": "void gemm", "StringIds": ""}.get(omit[0], "void gemm<float>(float*)")
    assert trace.name(trace.device, 0) == name
    assert trace.device.call.tolist() == [-1 if "correlationId" in omit else 0]


def test_a_graph_that_was_traced_as_a_whole_is_one_piece_of_work(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.step(0, 100)
    launched = trace.call("cudaGraphLaunch", 5, 10)
    writer = NsightWriter(tmp_path / "report.sqlite")
    writer.take(trace)
    work = {"deviceId": 0, "streamId": 7, "correlationId": launched, "globalPid": global_id(100)}
    writer.insert(GRAPHS, start=20_000, end=70_000, graphId=3, **work)
    read_back = read(writer.path)
    assert read_back.name(read_back.device, 0) == "CUDA graph 3"
    parts = breakdown(read_back)
    assert parts is not None
    assert (parts.active, parts.graph_launches, parts.graph_kernels) == (50_000, 1, 1)


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("CUDA_MEMCPY_KIND_HTOA", tables.HOST_TO_DEVICE),
        ("CUDA_MEMCPY_KIND_ATOH", tables.DEVICE_TO_HOST),
        ("CUDA_MEMCPY_KIND_ATOD", tables.DEVICE_TO_DEVICE),
        ("CUDA_MEMCPY_KIND_UVM_DTOH", tables.DEVICE_TO_HOST),
        ("CUDA_MEMCPY_KIND_PTOP", tables.PEER),
        ("CUDA_MEMCPY_KIND_UNKNOWN", -1),
    ],
)
def test_the_file_says_what_its_numbers_mean(tmp_path: Path, name: str, direction: int) -> None:
    writer = NsightWriter(tmp_path / "report.sqlite")
    writer.insert("ENUM_CUDA_MEMCPY_OPER", id=77, name=name, label="x")
    times = {"start": 0, "end": 1000, "deviceId": 0, "streamId": 7, "correlationId": 1}
    writer.insert(COPIES, **times, bytes=5, copyKind=77, srcKind=1, dstKind=99)
    trace = read(writer.path)
    assert trace.device.direction.tolist() == [direction]
    assert trace.device.memory.tolist() == [tables.PINNED]


def test_several_processes_in_one_file_are_ranks(tmp_path: Path) -> None:
    """Both count their correlation ids from one, and call their device number 0."""
    writer = NsightWriter(tmp_path / "report.sqlite")
    for process, length in ((200, 10), (100, 30)):
        trace = TraceBuilder()
        for at in (0, 100):
            trace.step(at, at + 90)
            trace.launch(at + 5, at + 8, at + 10, at + 10 + length, f"kernel of {process}")
        writer.take(trace, process)
    ranks = read_ranks(writer.path)
    assert sorted((rank.name(rank.device, 0), rank.device.duration.tolist()) for rank in ranks) == [
        ("kernel of 100", [30_000, 30_000]),
        ("kernel of 200", [10_000, 10_000]),
    ]
    assert all((rank.device.call >= 0).all() for rank in ranks)


def test_rows_without_times_are_skipped_and_open_ranges_left_out(tmp_path: Path) -> None:
    writer = NsightWriter(tmp_path / "report.sqlite")
    writer.take(step())
    call = {"globalTid": global_id(100, 100), "correlationId": 9, "nameId": 1, "eventClass": 0, "returnValue": 0}
    writer.insert_all(CALLS, [{"start": 0, "end": 0, **call}, {"start": "soon", "end": 5.5, **call}])
    writer.insert(RANGES, start=5, end=None, eventType=PUSH_POP, text="open", globalTid=global_id(100, 100))
    writer.insert(RANGES, start=5, end=9, eventType=34, text="a mark", globalTid=global_id(100, 100))
    trace = read(writer.path)
    assert (trace.skipped, len(trace.calls)) == (2, 2)
    assert not {"open", "a mark"} & set(trace.names)


@pytest.mark.parametrize(
    "text", ["aten::mm, sizes = [[1,], seq = 3", "aten::mm, sizes = " + "[" * 5000, ", seq = 4"]
)
def test_a_malformed_range_keeps_its_name(tmp_path: Path, text: str) -> None:
    writer = NsightWriter(tmp_path / "report.sqlite")
    writer.take(step())
    writer.insert(RANGES, start=61_000, end=62_000, eventType=PUSH_POP, text=text, globalTid=global_id(100, 100))
    trace = read(writer.path)
    assert len(trace.operators) == 3
    assert trace.inputs_of(2).dims == b""


def test_what_is_no_export_is_refused_in_one_line(tmp_path: Path) -> None:
    writer = NsightWriter(tmp_path / "other.sqlite", ("CUPTI_ACTIVITY_KIND_KERNEL", CALLS, RANGES, GRAPHS, COPIES))
    with pytest.raises(BadInput, match="no export of Nsight Systems"):
        read(writer.path)
    packed = tmp_path / "report.sqlite.gz"
    packed.write_bytes(gzip.compress(write_nsight(step(), tmp_path / "report.sqlite").read_bytes()))
    with pytest.raises(BadInput, match="unpack it first"):
        read(packed)
