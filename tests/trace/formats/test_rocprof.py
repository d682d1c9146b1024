"""rocprofv3's document: records by number, several processes, and what is missing or malformed."""

import json
from pathlib import Path
from typing import Any

import pytest
from rocprof_files import CPU_AGENT, GPU_AGENT, rocprof_process, write_rocprof, write_rocprof_v1
from traces import TraceBuilder

from tare.errors import BadInput
from tare.trace import tables
from tare.trace.formats.rocprof import copy_name
from tare.trace.metadata import device_name, has_tf32
from tare.trace.read import read, read_ranks


def program(length: float = 30) -> TraceBuilder:
    trace = TraceBuilder()
    for at in (0, 100):
        trace.step(at, at + 90)
        trace.annotation("forward", at + 2, at + 60)
        trace.copy(
            "HtoD (Pageable -> Device)", at + 5, at + 9, trace.call("cudaMemcpyAsync", at + 3, at + 6), 4096
        )
        trace.launch(at + 10, at + 12, at + 20, at + 20 + length, "Cijk_Ailk", grid=[5, 2, 1], block=[256, 1, 1])
        trace.call("cudaStreamSynchronize", at + 40, at + 70)
    return trace


def write(path: Path, *processes: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(processes)}))
    return path


def test_records_have_the_names_of_their_numbers(tmp_path: Path) -> None:
    trace = read(write_rocprof(program(), tmp_path / "results.json"))
    calls = [trace.name(trace.calls, row) for row in range(3)]
    assert calls == ["hipMemcpyAsync", "hipLaunchKernel", "hipStreamSynchronize"]
    assert trace.calls.kind[:3].tolist() == [tables.COPY_CALL, tables.LAUNCH, tables.SYNC]
    work = trace.device
    assert [trace.name(work, row) for row in range(2)] == ["Memcpy HtoD", "Cijk_Ailk"]
    assert (work.direction[0], work.bytes[0], work.memory[0]) == (tables.HOST_TO_DEVICE, 4096, -1)
    # HIP counts the grid in workgroups, rocprof in threads.
    assert (work.grid[1].tolist(), work.block[1].tolist()) == ([5, 2, 1], [256, 1, 1])
    assert (work.registers[1], work.shared[1], work.stream[1]) == (32, 0, 7)
    assert "forward" in trace.names
    assert trace.steps.number.tolist() == [1, 2]
    assert device_name(trace) == "AMD MI300X"
    assert not has_tf32(trace)


def test_every_process_of_a_document_is_a_rank(tmp_path: Path) -> None:
    processes = (rocprof_process(program(30), 100), rocprof_process(program(50), 200))
    ranks = read_ranks(write(tmp_path / "results.json", *processes))
    kernels = [rank.device.duration[rank.device.kernels].tolist() for rank in ranks]
    assert sorted(kernels) == [[30_000] * 2, [50_000] * 2]
    assert all((rank.device.call >= 0).all() for rank in ranks)


def test_numbers_without_a_name_are_no_error(tmp_path: Path) -> None:
    process = rocprof_process(program())
    process["kernel_symbols"] = process["agents"] = []
    process["strings"] = {"buffer_records": [], "marker_api": []}
    trace = read(write(tmp_path / "results.json", process))
    assert (len(trace.device), set(trace.names)) == (4, {""})
    assert trace.device.duration[trace.device.kernels].tolist() == [30_000] * 2


def test_work_that_hsa_calls_for_hip_is_that_of_the_hip_call(tmp_path: Path) -> None:
    """With --sys-trace the innermost call, which is HSA's, has the number of the kernel."""
    process = rocprof_process(program())
    records = process["buffer_records"]
    for kernel in records["kernel_dispatch"]:
        (outer,) = (call for call in records["hip_api"] if call["correlation_id"] == kernel["correlation_id"])
        number = 9000 + len(records["hsa_api"])
        inner = outer | {"start_timestamp": outer["start_timestamp"] + 100, "kind": 0, "operation": 1}
        inner |= {"end_timestamp": outer["end_timestamp"] - 100, "correlation_id": {"internal": number}}
        records["hsa_api"].append(inner)
        kernel["correlation_id"] = {"internal": number}
    trace = read(write(tmp_path / "results.json", process))
    assert len(trace.calls) == 6
    launched = trace.device.call[trace.device.kernels].tolist()
    assert [trace.name(trace.calls, row) for row in launched] == ["hipLaunchKernel"] * 2
    # Without HIP's calls those of HSA are all there is.
    records["hip_api"] = []
    trace = read(write(tmp_path / "hsa.json", process))
    assert len(trace.calls) == 2
    assert (trace.device.call[trace.device.kernels] >= 0).all()


@pytest.mark.parametrize(
    ("operation", "between", "name"),
    [
        ("MEMORY_COPY_HOST_TO_DEVICE", False, "Memcpy HtoD"),
        ("CopyDeviceToHost", False, "Memcpy DtoH"),
        ("MEMORY_COPY_DEVICE_TO_DEVICE", False, "Memcpy DtoD"),
        ("MEMORY_COPY_DEVICE_TO_DEVICE", True, "Memcpy PtoP"),
        ("MEMORY_COPY_NONE", False, "MEMORY_COPY_NONE"),
    ],
)
def test_copies_are_named_as_everywhere(operation: str, between: bool, name: str) -> None:
    assert copy_name(operation, between) == name


def test_a_copy_to_another_device(tmp_path: Path) -> None:
    process = rocprof_process(program())
    other = {"handle": 1005}
    process["agents"].append({"id": other, "type": 2, "logical_node_type_id": 1, "name": "gfx942"})
    for copy in process["buffer_records"]["memory_copy"]:
        copy |= {"src_agent_id": GPU_AGENT, "dst_agent_id": other, "operation": 4}
    device = read(write(tmp_path / "results.json", process)).device
    copies = device.take(device.copies)
    assert (copies.direction.tolist(), copies.device.tolist()) == ([tables.PEER] * 2, [1] * 2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("buffer_records", []),
        ("agents", {"id": 1}),
        ("kernel_symbols", [{"kernel_id": "one"}]),
        ("buffer_records", {"kernel_dispatch": [{"dispatch_info": 5}]}),
        ("buffer_records", {"hip_api": [{"end_timestamp": 5, "correlation_id": {"internal": 2**70}}]}),
    ],
)
def test_a_malformed_document_is_refused_in_one_line(tmp_path: Path, key: str, value: Any) -> None:
    path = write(tmp_path / "results.json", rocprof_process(program()) | {key: value})
    with pytest.raises(BadInput) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.2, 0.7, 0.99])
def test_a_truncated_document_is_refused_in_one_line(tmp_path: Path, share: float) -> None:
    path = write_rocprof(program(), tmp_path / "results.json")
    path.write_bytes(path.read_bytes()[: round(path.stat().st_size * share)])
    with pytest.raises(BadInput, match="no document of rocprofv3"):
        read(path)


def test_agents_are_told_apart_by_their_type(tmp_path: Path) -> None:
    process = rocprof_process(program())
    assert {agent["type"] for agent in process["agents"]} == {1, 2}
    for copy in process["buffer_records"]["memory_copy"]:
        copy |= {"src_agent_id": GPU_AGENT, "dst_agent_id": CPU_AGENT, "operation": 3}
    device = read(write(tmp_path / "results.json", process)).device
    assert device.direction[device.copies].tolist() == [tables.DEVICE_TO_HOST] * 2
    assert set(device.device.tolist()) == {0}


def test_times_of_v1_are_those_of_its_arguments(tmp_path: Path) -> None:
    """Its spans are in whole microseconds."""
    trace = TraceBuilder()
    trace.step(0, 100)
    trace.launch(5.25, 8.5, 10.125, 10.875)
    found = read(write_rocprof_v1(trace, tmp_path / "results.json"))
    assert found.device.duration.tolist() == [750]
    # HSA's call has the same number.
    assert [found.name(found.calls, row) for row in found.device.call.tolist()] == ["hipLaunchKernel"]
