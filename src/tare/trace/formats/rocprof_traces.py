"""The Chrome traces of rocprof: v1 (`rocprof --hip-trace`) names its processes and has exact times among the
arguments; v2 (`--plugin json`) has categories, whole microseconds, and no device of a copy; the pftrace of v3,
which traceconv converts to JSON, has other categories.

v1: bin/tblextr.py, v2: plugin/json/json.cpp of ROCm/rocprofiler; v3: source/lib/output/generatePerfetto.cpp of
ROCm/rocprofiler-sdk.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tare.trace.events import Event, EventArgs, Tag, span
from tare.trace.formats.ranges import range_event
from tare.trace.formats.rocprof import copy_name
from tare.trace.formats.xla import number
from tare.trace.names import copy_direction
from tare.trace.tables import DEVICE_TO_HOST

# One of these is in every such trace.
PROCESSES = ("CPU HIP API", "CPU HSA API", "HIPBLITKERNELS")
CATEGORIES = ("kernel_dispatch", "memory_copy", "hip_api")
# What the events of a category, or else of a process, are.
_KINDS = {
    **dict.fromkeys(("kernel_dispatch", "gpu", "GPU"), "kernel"),
    **dict.fromkeys(("memory_copy", "COPY", "HIPBLITKERNELS"), "copy"),
    **dict.fromkeys(("hip_api", "hsa_api", "rccl_api", "CPU HIP API"), "call"),
    **dict.fromkeys(("marker_api", "Markers and Ranges"), "marker"),
    "CPU": "call or marker",
    # Under HIP, HSA's calls have numbers of their own.
    "CPU HSA API": "call without a number",
}
_GPU, _CALL, _AGENT = re.compile(r"GPU(\d{1,6})"), re.compile(r"(?:__)?hip[A-Z]|hsa_"), re.compile(r"(\d{1,6})$")


def rocprof_event(
    name: str,
    category: str,
    process: str,
    thread: tuple[Tag, Tag],
    times: tuple[int, int],
    args: Mapping[str, Any],
) -> Iterator[Event]:
    gpu = _GPU.fullmatch(process)
    kind = _KINDS.get(category) or _KINDS.get(process) or ("kernel" if gpu else "")
    exact = [number(args.get(v1, args.get(v3))) for v1, v3 in (("BeginNs", "begin_ns"), ("EndNs", "end_ns"))]
    start, end = exact if 0 < exact[0] <= exact[1] else times
    correlation = number(args.get("Index", args.get("cid", args.get("corr_id"))))
    if kind == "marker" or (kind == "call or marker" and not _CALL.match(name)):
        yield range_event(name, thread, start, end)
    elif kind.startswith("call"):
        numbered = kind != "call without a number"
        yield span("hip_runtime", name, thread, start, end, EventArgs(correlation=correlation if numbered else -1))
    elif kind:
        device = number(args["dev-id"]) if "dev-id" in args else int(gpu[1]) if gpu else _agent(name, args)
        stream = number(args.get("stream-id", args.get("queue", thread[1])))
        work = EventArgs(device=max(device, 0), stream=stream, correlation=correlation)
        if kind == "copy":
            fills = "fill" in name.lower()
            category, name = ("gpu_memset", "Memset (Device)") if fills else ("gpu_memcpy", copy_name(name))
        yield span(category if kind == "copy" else "kernel", name, thread, start, end, work)


def _agent(name: str, args: Mapping[str, Any]) -> int:
    """The device that an agent of v3 is: 'Agent-4', 'GPU-0'."""
    end = "src_agent" if copy_direction(copy_name(name)) == DEVICE_TO_HOST else "dst_agent"
    match = _AGENT.search(str(args.get("agent", args.get(end, ""))))
    return int(match[1]) if match else 0
