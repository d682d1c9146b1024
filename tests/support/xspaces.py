"""XSpaces as XLA's profilers write them: an encoder of Protocol Buffers, and hand-made traces as profiles.

On a GPU, CUPTI's collector puts kernels and copies on lines named by their stream, and calls, which it names after
their kernels, on the lines of the host's threads (xla/backends/profiler/gpu/cupti_collector.cc).
"""

import gzip
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from traces import TraceBuilder

from tare.system.xspace import XSpace

PS = 1_000_000
DIRECTIONS = {"HtoD": "MemcpyH2D", "DtoH": "MemcpyD2H", "DtoD": "MemcpyD2D", "PtoP": "MemcpyP2P"}


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def field(number: int, value: int | float | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


class Recorded(NamedTuple):
    """One event of a line; times in picoseconds."""

    name: str
    start: int
    duration: int
    stats: Mapping[str, Any] = {}


class PlaneWriter:
    """Numbers the names of events and statistics, as XPlanes do."""

    def __init__(self, name: str, stats: Mapping[str, Any] | None = None) -> None:
        self._name, self._stats = name, stats or {}
        self._events: dict[str, int] = {}
        self._stat_names: dict[str, int] = {}
        self._lines: list[bytes] = []

    def line(self, id: int, name: str, events: Iterable[Recorded], start_ns: int = 0) -> None:
        body = b"".join(field(4, self._event(event)) for event in events)
        self._lines.append(field(1, id) + field(2, name) + field(3, start_ns) + body)

    def encode(self) -> bytes:
        stats = b"".join(field(6, self._stat(*stat)) for stat in self._stats.items())
        named = [(4, self._events), (5, self._stat_names)]
        metadata = b"".join(
            field(number, field(1, id) + field(2, field(1, id) + field(2, name)))
            for number, names in named
            for name, id in names.items()
        )
        lines = b"".join(field(3, line) for line in self._lines)
        return field(1, 1) + field(2, self._name) + lines + metadata + stats

    def _event(self, event: Recorded) -> bytes:
        number = self._events.setdefault(event.name, len(self._events) + 1)
        stats = b"".join(field(4, self._stat(*stat)) for stat in event.stats.items())
        return field(1, number) + field(2, event.start) + field(3, event.duration) + stats

    def _stat(self, name: str, value: Any) -> bytes:
        number = self._stat_names.setdefault(name, len(self._stat_names) + 1)
        if isinstance(value, str):
            # CUPTI's collector writes texts as references to names.
            return field(1, number) + field(7, self._stat_names.setdefault(value, len(self._stat_names) + 1))
        return field(1, number) + field(2 if isinstance(value, float) else 4, value)


def xspace(planes: Sequence[PlaneWriter]) -> bytes:
    return b"".join(field(1, plane.encode()) for plane in planes) + field(4, "a-host")


def write_xspace(trace: TraceBuilder, path: Path, operation: str = "fusion") -> Path:
    """A hand-made trace as a profile of JAX: kernels belong to the operation `operation` of jit_step."""
    device = PlaneWriter(
        "/device:GPU:0", {"gpu_device_name": "Test GPU", "compute_cap_major": 9, "compute_cap_minor": 0}
    )
    host = PlaneWriter("/host:CPU")
    streams: dict[int, list[Recorded]] = {}
    threads: dict[int, list[Recorded]] = {}
    kernels = {event["args"]["correlation"]: event["name"] for event in trace.events if event["cat"] == "kernel"}
    for event in trace.events:
        name, args = event["name"], event["args"]
        start, duration = (round(event[key] * PS) for key in ("ts", "dur"))
        correlation = {"correlation_id": args["correlation"]} if "correlation" in args else {}
        program = {"hlo_op": operation, "hlo_module": "jit_step"}
        if event["cat"] == "kernel":
            shape = " ".join(f"{key}:{','.join(map(str, args[key]))}" for key in ("grid", "block"))
            registers, shared = args["registers per thread"], args["shared memory"]
            details = f"regs:{registers} static_shared:{shared} dynamic_shared:0 {shape} occ_pct:100"
            stats = correlation | program | {"kernel_details": details}
            streams.setdefault(args["stream"], []).append(Recorded(name, start, duration, stats))
        elif event["cat"] == "gpu_memcpy":
            direction, source, _, target = name.removeprefix("Memcpy ").replace("(", "").replace(")", "").split()
            details = f"kind_src:{source.lower()} kind_dst:{target.lower()} size:{args['bytes']} dest:0 async:1"
            copied = Recorded(DIRECTIONS[direction], start, duration, correlation | {"memcpy_details": details})
            streams.setdefault(args["stream"], []).append(copied)
        elif event["cat"] == "gpu_memset":
            details = f"kind:device num_bytes:{args['bytes']} async:1"
            cleared = Recorded("Memset", start, duration, correlation | {"Memset_details": details})
            streams.setdefault(args["stream"], []).append(cleared)
        elif event["cat"] in ("cuda_runtime", "cuda_driver"):
            called = Recorded(kernels.get(args["correlation"], name), start, duration, correlation)
            threads.setdefault(event["tid"], []).append(called)
        elif name.startswith("ProfilerStep#"):
            if event["cat"] == "user_annotation":
                marks = {"step_num": int(name.partition("#")[2]), "_r": 1}
                threads.setdefault(event["tid"], []).append(Recorded("train", start, duration, marks))
        else:
            threads.setdefault(event["tid"], []).append(Recorded(name, start, duration))
    for stream, events in streams.items():
        device.line(stream, f"Stream #{stream}(Compute,MemcpyH2D)", events)
    for thread, events in threads.items():
        host.line(thread, "python", events)
    data = xspace([PlaneWriter("/host:metadata"), device, host])
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_chrome(profile: Path, path: Path) -> Path:
    """A profile as JAX and TensorFlow write it for chrome://tracing: texts alone, and the host first."""
    planes = XSpace(profile).planes
    events: list[dict[str, Any]] = []
    for plane in sorted(planes, key=lambda plane: plane.device is not None):
        if plane.name not in ("/host:CPU", "/device:GPU:0"):
            continue
        pid = 701 if plane.device is None else 1
        events.append({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": plane.name}})
        for line in plane.lines:
            events.append(
                {"ph": "M", "pid": pid, "tid": line.id, "name": "thread_name", "args": {"name": line.name}}
            )
        for line in plane.lines:
            for event in line.events:
                made = {"ph": "X", "pid": pid, "tid": line.id, "ts": event.start / 1000, "name": event.name}
                made["dur"] = max(event.end - event.start, 0.001) / 1000
                events.append(made | {"args": {name: str(value) for name, value in event.stats.items()}})
    document = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*events, {}]}
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    return path
