"""Nsight Systems: the SQLite database of `nsys export --type sqlite`.

Its tables hold CUPTI's activities (kernels, copies, memsets, and calls of the CUDA runtime and driver, joined by
correlation ids) and NVTX ranges. The table of synchronisations names no thread, and repeats what the waiting call
says. Which tables and columns a file has depends on its version and on what was traced.
https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tare.errors import BadInput
from tare.system.bounded_files import GZIP
from tare.system.sqlite_tables import MAGIC, Row, SqliteTables
from tare.trace.events import Event, EventArgs, in_lists, span, triple
from tare.trace.formats import TraceFormat, trace_format
from tare.trace.formats.ranges import range_event

KERNELS, GRAPHS, COPIES, MEMSETS, CALLS = (
    f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "GRAPH_TRACE", "MEMCPY", "MEMSET", "RUNTIME")
)
RANGES = "NVTX_EVENTS"
WORK = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
NAMES = ("demangledName", "shortName", "mangledName")
LAUNCH = (
    *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
    *("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
)
# NVTX ranges of one thread, and ranges that may end on another.
RANGE_TYPES = (59, 60)
# Names of the kinds of copies and of memory, for files without them. Unified memory is copied on demand.
COPY_KINDS = (
    *("", "HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP"),
    *("UVM_HTOD", "UVM_DTOH", "UVM_DTOD"),
)
MEMORY_KINDS = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown")
# CUDA_MEMCPY_KIND_HTOD. Arrays are memory of the device.
_COPY = re.compile(r"(?:^|_)([HDAP])TO([HDAP])$")
# The version of an entry point in the name of a call: cudaLaunchKernel_v7000, cudaMemcpyAsync_ptsz_v7000.
_VERSION = re.compile(r"(?:_ptsz|_ptds)?(?:_v\d+)?$")
# Correlation ids have 32 bits, and are counted in every process.
CORRELATION_BITS = 32


@trace_format
class NsightExport(TraceFormat):
    name = "Nsight Systems"
    endings = (".sqlite", ".sqlite3")

    @staticmethod
    def begins(head: bytes) -> bool:
        return head.startswith(MAGIC)

    def __iter__(self) -> Iterator[list[Event]]:
        with self.path.open("rb") as file:
            if file.read(len(GZIP)) == GZIP:
                raise BadInput(f"{self.path} is compressed, which SQLite does not read: unpack it first")
        with SqliteTables(self.path) as tables:
            if not {KERNELS, GRAPHS, COPIES, CALLS, RANGES} & tables.names:
                raise BadInput(
                    f"{self.path} is no export of Nsight Systems: no CUDA activities and no NVTX ranges"
                )
            devices = tables.rows("TARGET_INFO_GPU", ("id", "cuDevice", "name", "computeMajor", "computeMinor"))
            self.metadata["deviceProperties"] = list(map(_properties, devices))
            yield from in_lists(_Activities(tables).events())


class _Activities:
    """The rows of the tables as events."""

    def __init__(self, tables: SqliteTables) -> None:
        self._tables = tables
        self._strings = {row["id"]: row["value"] for row in tables.rows("StringIds", ("id", "value"))}
        # Files of old versions do not say whose the work of a device is.
        self._says_process = any(
            "globalPid" in tables.columns(work) for work in (KERNELS, GRAPHS, COPIES, MEMSETS)
        )
        self._processes: dict[int, int] = {}

    def events(self) -> Iterator[Event]:
        rows = self._tables.rows
        for row in rows(KERNELS, (*WORK, *NAMES, *LAUNCH)):
            name = next(filter(None, (self._text(row[kind]) for kind in NAMES)), "")
            yield self._work("kernel", name, row, **_launch(*(row[column] for column in LAUNCH)))
        for row in rows(GRAPHS, (*WORK, "graphId")):
            # nsys traces a graph as a whole, unless it is told to trace nodes.
            yield self._work("kernel", f"CUDA graph {_number(row['graphId'])}", row)
        copies = self._names_of("ENUM_CUDA_MEMCPY_OPER", "name", COPY_KINDS)
        memory = self._names_of("ENUM_CUDA_MEM_KIND", "label", MEMORY_KINDS)
        for row in rows(COPIES, (*WORK, "bytes", "copyKind", "srcKind", "dstKind")):
            source, target = (memory.get(row[end]) or "Unknown" for end in ("srcKind", "dstKind"))
            name = _copy_name(copies.get(row["copyKind"]) or "", source, target)
            yield self._work("gpu_memcpy", name, row, bytes=_number(row["bytes"]))
        for row in rows(MEMSETS, (*WORK, "bytes")):
            yield self._work("gpu_memset", "Memset (Device)", row, bytes=_number(row["bytes"]))
        for row in rows(CALLS, ("start", "end", "globalTid", "correlationId", "nameId")):
            name, thread = _call_name(self._text(row["nameId"])), _thread(row["globalTid"])
            category = "cuda_runtime" if name.startswith("cuda") else "cuda_driver"
            correlation = self._correlation(thread[0], row["correlationId"])
            yield span(category, name, thread, *_times(row), EventArgs(correlation=correlation))
        for row in rows(RANGES, ("start", "end", "eventType", "globalTid", "text", "textId")):
            # A range that was still open when the recording ended has no end.
            if row["eventType"] in RANGE_TYPES and row["end"] is not None:
                text = self._text(row["text"]) or self._text(row["textId"])
                yield range_event(text, _thread(row["globalTid"]), *_times(row))

    def _work(self, category: str, name: str, row: Row, **more: Any) -> Event:
        process, device, stream = _thread(row["globalPid"])[0], _number(row["deviceId"]), _number(row["streamId"])
        correlation = self._correlation(process, row["correlationId"])
        args = EventArgs(device=max(device, 0), stream=stream, correlation=correlation, **more)
        return span(category, name, (f"{process} device {device}", stream), *_times(row), args)

    def _correlation(self, process: int, correlation: Any) -> int:
        number = self._processes.setdefault(process, len(self._processes)) if self._says_process else 0
        known = _number(correlation)
        return number << CORRELATION_BITS | known if known > 0 else -1

    def _text(self, value: Any) -> str:
        """A text, or that with this number."""
        text = self._strings.get(value) if isinstance(value, int) else value
        return text if isinstance(text, str) else ""

    def _names_of(self, table: str, column: str, usual: tuple[str, ...]) -> dict[Any, str]:
        """What the numbers of an enumeration mean, as the file says or else as usual."""
        named = {row["id"]: self._text(row[column]) for row in self._tables.rows(table, ("id", column))}
        return dict(enumerate(usual)) | named


def _number(value: Any) -> int:
    return value if isinstance(value, int) else -1


def _times(row: Row) -> tuple[int, int]:
    """Start and end. CUPTI writes two zeros where it lost the times: such a row has no usable length."""
    start, end = _number(row["start"]), _number(row["end"])
    return (start, end) if end > 0 else (0, -1)


def _thread(global_id: Any) -> tuple[int, int]:
    """Process and thread. Above them, a number has the machine."""
    number = max(_number(global_id), 0)
    return number >> 24 & 0xFFFFFF, number & 0xFFFFFF


@lru_cache(maxsize=4096)
def _call_name(name: str) -> str:
    return _VERSION.sub("", name)


# A step repeats its kernels.
@lru_cache(maxsize=16384)
def _launch(*values: Any) -> dict[str, Any]:
    registers, static, dynamic, *sizes = map(_number, values)
    shared = {"shared": max(static, 0) + max(dynamic, 0)} if max(static, dynamic) >= 0 else {}
    return {"registers": registers, "grid": triple(*sizes[:3]), "block": triple(*sizes[3:]), **shared}


def _copy_name(kind: str, source: str, target: str) -> str:
    """As torch.profiler names copies: 'Memcpy HtoD (Pageable -> Device)'."""
    ends = _COPY.search(kind)
    direction = "to".join(ends.groups()).replace("A", "D") if ends else "of an unknown direction"
    return f"Memcpy {direction} ({source} -> {target})"


def _properties(row: Row) -> dict[str, Any]:
    number = row["id"] if row["cuDevice"] is None else row["cuDevice"]
    return {"id": number} | {name: row[name] for name in ("name", "computeMajor", "computeMinor")}
