"""Hand-made traces as rocprof writes them: the document of rocprofv3, and the Chrome traces of v1, v2 and v3."""

import json
import re
from pathlib import Path
from typing import Any

from traces import TraceBuilder

HIP_API, COPIES, DISPATCHES, MARKERS = 0, 1, 2, 3
CPU_AGENT, GPU_AGENT = {"handle": 1001}, {"handle": 1004}
COPY_OPERATIONS = ("NONE", "HOST_TO_HOST", "HOST_TO_DEVICE", "DEVICE_TO_HOST", "DEVICE_TO_DEVICE")
ENDS = {"HtoD": (2, CPU_AGENT, GPU_AGENT), "DtoH": (3, GPU_AGENT, CPU_AGENT), "DtoD": (4, GPU_AGENT, GPU_AGENT)}
# The clock of the machine, in nanoseconds.
BOOTED = 123_456_789_000_000


def hip_name(name: str) -> str:
    return re.sub(r"^cuda|^cu(?=[A-Z])", "hip", name)


def rocprof_process(trace: TraceBuilder, pid: int = 100) -> dict[str, Any]:
    operations: list[str] = []
    symbols: dict[str, int] = {}
    messages: list[dict[str, Any]] = []
    records: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("kernel_dispatch", "memory_copy", "hip_api", "hsa_api", "marker_api", "rccl_api")
    }
    for number, event in enumerate(trace.events):
        category, name, args = event["cat"], event["name"], event["args"]
        start = BOOTED + round(event["ts"] * 1000)
        record = {
            "size": 64, "thread_id": event["tid"], "start_timestamp": start,
            "end_timestamp": start + round(event["dur"] * 1000),
            "correlation_id": {"internal": args.get("correlation", 5000 + number), "external": 0},
        }  # fmt: skip
        if category == "kernel":
            symbols.setdefault(name, len(symbols) + 1)
            sizes = [grid * block for grid, block in zip(args["grid"], args["block"], strict=True)]
            info = {
                "agent_id": GPU_AGENT, "queue_id": {"handle": args["stream"]}, "kernel_id": symbols[name],
                "group_segment_size": args["shared memory"], "private_segment_size": 0, "dispatch_id": number,
                "workgroup_size": dict(zip("xyz", args["block"], strict=True)),
                "grid_size": dict(zip("xyz", sizes, strict=True)),
            }  # fmt: skip
            records["kernel_dispatch"].append(record | {"kind": DISPATCHES, "operation": 3, "dispatch_info": info})
        elif category == "gpu_memcpy":
            operation, source, target = ENDS[name.split()[1]]
            agents = {"src_agent_id": source, "dst_agent_id": target, "bytes": args["bytes"]}
            copy = {"kind": COPIES, "operation": operation, "stream_id": {"handle": args["stream"]}}
            records["memory_copy"].append(record | agents | copy)
        elif category in ("cuda_runtime", "cuda_driver"):
            called = hip_name(name)
            operations += [] if called in operations else [called]
            records["hip_api"].append(record | {"kind": HIP_API, "operation": operations.index(called)})
        elif category == "user_annotation":
            messages.append({"key": record["correlation_id"]["internal"], "value": name})
            records["marker_api"].append(record | {"kind": MARKERS, "operation": 1})
    copies = [f"MEMORY_COPY_{operation}" for operation in COPY_OPERATIONS]
    kinds = [
        {"kind": "HIP_RUNTIME_API", "operations": operations},
        {"kind": "MEMORY_COPY", "operations": copies},
        {"kind": "KERNEL_DISPATCH", "operations": ["NONE", "ENQUEUE", "COMPLETE", "COMPLETE"]},
        {"kind": "MARKER_CORE_API", "operations": ["roctxMarkA", "roctxThreadRangeA"]},
    ]
    machine = [
        {"id": CPU_AGENT, "type": 1, "logical_node_type_id": 0, "name": "EPYC", "product_name": "EPYC"},
        {"id": GPU_AGENT, "type": 2, "logical_node_type_id": 0, "name": "gfx942", "product_name": "MI300X"},
    ]
    kernel_symbols = [
        {"kernel_id": number, "kernel_name": f"{name}.kd", "formatted_kernel_name": name, "arch_vgpr_count": 32}
        for name, number in symbols.items()
    ]
    return {
        "metadata": {"pid": pid, "init_time": BOOTED, "fini_time": BOOTED + 10**9},
        "agents": machine,
        "counters": [],
        "strings": {"buffer_records": kinds, "marker_api": messages, "callback_records": []},
        "code_objects": [],
        "kernel_symbols": kernel_symbols,
        "callback_records": {"counter_collection": []},
        "buffer_records": records,
    }


def write_rocprof(trace: TraceBuilder, path: Path) -> Path:
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [rocprof_process(trace)]}, indent=4))
    return path


def write_rocprof_v1(trace: TraceBuilder, path: Path) -> Path:
    """`rocprof --hip-trace --roctx-trace`: numbers in quotes, and processes that stand for the domains."""
    events: list[dict[str, Any]] = [{}]
    processes = {0: "Markers and Ranges", 1: "COPY", 2: "CPU HIP API", 3: "CPU HSA API", 6: "GPU0"}
    events += [
        {"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name", "sort_index": i}
        for i, (pid, name) in enumerate(processes.items())
    ]
    for event in trace.events:
        category, name, args = event["cat"], event["name"], event["args"]
        begin = BOOTED + round(event["ts"] * 1000)
        end = begin + round(event["dur"] * 1000)
        own: dict[str, Any] = {"BeginNs": begin, "EndNs": end, "pid": 100, "tid": 100, "Name": name}
        own |= {"Index": args.get("correlation", 0), "DurationNs": end - begin}
        if category == "kernel":
            section, lane, own = 6, args["stream"], own | {"dev-id": 0, "queue-id": 1, "stream-id": args["stream"]}
        elif category == "gpu_memcpy":
            copied = {"HtoD": "CopyHostToDevice", "DtoH": "CopyDeviceToHost", "DtoD": "CopyDeviceToDevice"}
            section, lane, name = 1, args["stream"], copied[name.split()[1]]
            own |= {"dev-id": 0, "queue-id": 1, "stream-id": args["stream"]}
        elif category in ("cuda_runtime", "cuda_driver"):
            section, lane, name = 2, event["tid"], hip_name(name)
        elif category == "user_annotation":
            section, lane = 0, event["tid"]
        else:
            continue
        quoted = {key: str(value) for key, value in own.items()}
        times = {"ts": str(begin // 1000), "dur": str(max((end - begin) // 1000, 1))}
        events.append({"ph": "X", "name": name, "pid": str(section), "tid": str(lane)} | times | {"args": quoted})
    # HSA's calls count from one too.
    hsa = {"ph": "X", "name": "hsa_queue_create", "pid": "3", "tid": "100", "ts": str(BOOTED // 1000), "dur": "1"}
    events.append(hsa | {"args": {"BeginNs": str(BOOTED), "EndNs": str(BOOTED + 1000), "Index": "1"}})
    path.write_text(json.dumps({"traceEvents": events, "otherData": {"Agent": "gfx90a"}}))
    return path


def write_rocprof_v2(trace: TraceBuilder, path: Path) -> Path:
    """`rocprofv2 --plugin json`: whole microseconds in quotes."""
    names = {1: "CPU", 2: "GPU", 3: "COPY", 4: "HIPBLITKERNELS"}
    events: list[dict[str, Any]] = [
        {"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name", "sort_index": pid - 1}
        for pid, name in names.items()
    ]
    for event in trace.events:
        category, name, args = event["cat"], event["name"], event["args"]
        times = {"ts": str(BOOTED // 1000 + round(event["ts"])), "dur": str(round(event["dur"]))}
        made = {"ph": "X", "name": name, "args": {"cid": args.get("correlation", 0)}} | times
        if category == "kernel":
            events.append(made | {"pid": 2, "tid": 1, "cat": "GPU"})
        elif category == "gpu_memcpy":
            copied = {"HtoD": "CopyHostToDevice", "DtoH": "CopyDeviceToHost", "DtoD": "CopyDeviceToDevice"}
            events.append(made | {"pid": 3, "tid": 1, "cat": "COPY", "name": copied[name.split()[1]]})
        elif category in ("cuda_runtime", "cuda_driver"):
            events.append(made | {"pid": 1, "tid": event["tid"], "cat": "CPU", "name": hip_name(name)})
        elif category == "user_annotation":
            events.append(made | {"pid": 1, "tid": event["tid"], "cat": "CPU"})
    path.write_text(json.dumps({"traceEvents": events}, indent=2))
    return path


def write_pftrace_json(trace: TraceBuilder, path: Path) -> Path:
    """rocprofv3's pftrace as traceconv writes it: threads have whole spans, other tracks a begin and an end."""
    events: list[dict[str, Any]] = []
    for number, event in enumerate(trace.events):
        category, name, args = event["cat"], event["name"], event["args"]
        begin = BOOTED + round(event["ts"] * 1000)
        end = begin + round(event["dur"] * 1000)
        own = {
            "begin_ns": begin,
            "end_ns": end,
            "delta_ns": end - begin,
            "corr_id": args.get("correlation", 5000 + number),
        }
        made = {"name": name, "pid": 100, "ts": begin / 1000}
        if category == "kernel":
            own |= {"agent": "Agent-4", "queue": args["stream"], "workgroup_size": 128, "grid_size": 128}
            made |= {"cat": "kernel_dispatch", "id": number}
        elif category == "gpu_memcpy":
            operation, source, _ = ENDS[name.split()[1]]
            agents = ("Agent-4", "Agent-0") if source is GPU_AGENT else ("Agent-0", "Agent-4")
            own |= {"src_agent": agents[0], "dst_agent": agents[1], "copy_bytes": args["bytes"]}
            made |= {"cat": "memory_copy", "id": number, "name": f"MEMORY_COPY_{COPY_OPERATIONS[operation]}"}
        elif category in ("cuda_runtime", "cuda_driver"):
            made |= {"cat": "hip_api", "tid": event["tid"], "dur": (end - begin) / 1000, "name": hip_name(name)}
        elif category == "user_annotation":
            made |= {"cat": "marker_api", "tid": event["tid"], "dur": (end - begin) / 1000}
        else:
            continue
        if "dur" in made:
            events.append({"ph": "X"} | made | {"args": own})
        else:
            events += [{"ph": "b"} | made | {"args": own}, {"ph": "e"} | made | {"ts": end / 1000}]
    path.write_text(json.dumps({"traceEvents": events}))
    return path
