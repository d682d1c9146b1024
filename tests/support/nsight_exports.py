"""Hand-made traces as SQLite exports of Nsight Systems, schema 3.16 (nsys 2024.6), and older ones."""

import re
import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Any

from traces import TraceBuilder

WORK = "start end deviceId contextId streamId correlationId globalPid"
NAMES = "demangledName shortName mangledName"
SHAPE = "registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory"
TABLES = {
    "StringIds": "id value",
    "TARGET_INFO_GPU": "vmId id name cuDevice computeMajor computeMinor",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{WORK} {NAMES} {SHAPE} graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{WORK} bytes copyKind srcKind dstKind",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{WORK} value bytes",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{WORK} graphId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue",
    "NVTX_EVENTS": "start end eventType text globalTid textId domainId",
    "ENUM_CUDA_MEMCPY_OPER": "id name label",
    "ENUM_CUDA_MEM_KIND": "id name label",
}
MEMCPY_KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "PtoP": 10}
MEMORY = {"Pageable": 0, "Pinned": 1, "Device": 2}
PUSH_POP = 59


def global_id(process: int, thread: int = 0) -> int:
    """The number of a thread: machine, process and thread in one."""
    return 0x1_00_0000 << 32 | process << 24 | thread


class NsightWriter:
    """`omit` leaves out tables, and columns of any table."""

    def __init__(self, path: Path, omit: Collection[str] = ()) -> None:
        self.path = path
        self._omit = omit
        self._strings: dict[str, int] = {}
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database, database:
            for table, columns in TABLES.items():
                kept = [f'"{column}"' for column in columns.split() if column not in omit]
                if table not in omit:
                    database.execute(f"CREATE TABLE {table} ({', '.join(kept)})")
        self.insert("TARGET_INFO_GPU", vmId=0, id=0, name="Test GPU", cuDevice=0, computeMajor=9, computeMinor=0)
        if "ENUM_CUDA_MEMCPY_OPER" not in omit:
            for name, number in MEMCPY_KINDS.items():
                self.insert(
                    "ENUM_CUDA_MEMCPY_OPER", id=number, name=f"CUDA_MEMCPY_KIND_{name.upper()}", label=name
                )
            for name, number in MEMORY.items():
                self.insert(
                    "ENUM_CUDA_MEM_KIND", id=number, name=f"CUDA_MEMOPR_MEMORY_KIND_{name.upper()}", label=name
                )

    def insert(self, table: str, **row: Any) -> None:
        self.insert_all(table, [row])

    def insert_all(self, table: str, rows: list[dict[str, Any]]) -> None:
        if table in self._omit or not rows:
            return
        columns = [f'"{column}"' for column in rows[0] if column not in self._omit]
        with closing(sqlite3.connect(self.path)) as database, database:
            database.executemany(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                [tuple(row[column.strip('"')] for column in columns) for row in rows],
            )

    def string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self.insert("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def take(self, trace: TraceBuilder, process: int = 100) -> None:
        """The events of a hand-made trace, as those of one process."""
        rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
        for event in trace.events:
            category, name, args = event["cat"], event["name"], event["args"]
            start = round(event["ts"] * 1000)
            times = {"start": start, "end": start + round(event["dur"] * 1000)}
            thread = {"globalTid": global_id(process, event["tid"] if isinstance(event["tid"], int) else 1)}
            work = times | {
                "deviceId": args.get("device"), "contextId": 1, "streamId": args.get("stream"),
                "correlationId": args.get("correlation"), "globalPid": global_id(process),
            }  # fmt: skip
            if category == "kernel":
                shape = dict(zip(("gridX", "gridY", "gridZ"), args["grid"], strict=True))
                shape |= dict(zip(("blockX", "blockY", "blockZ"), args["block"], strict=True))
                short = re.sub(r"[<(].*", "", name)
                rows["CUPTI_ACTIVITY_KIND_KERNEL"].append(
                    work
                    | {"demangledName": self.string(name), "shortName": self.string(short), "mangledName": None}
                    | {"registersPerThread": args["registers per thread"], "graphNodeId": None}
                    | {"staticSharedMemory": args["shared memory"], "dynamicSharedMemory": 0}
                    | shape
                )
            elif category == "gpu_memcpy":
                direction, source, _, target = re.sub("[()]", "", name.removeprefix("Memcpy ")).split()
                kinds = {"copyKind": MEMCPY_KINDS[direction], "srcKind": MEMORY[source], "dstKind": MEMORY[target]}
                rows["CUPTI_ACTIVITY_KIND_MEMCPY"].append(work | {"bytes": args["bytes"]} | kinds)
            elif category == "gpu_memset":
                rows["CUPTI_ACTIVITY_KIND_MEMSET"].append(work | {"bytes": args["bytes"], "value": 0})
            elif category in ("cuda_runtime", "cuda_driver"):
                call = {"eventClass": 0, "returnValue": 0, "correlationId": args["correlation"]}
                version = {"nameId": self.string(f"{name}_v7000")}
                rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(times | thread | call | version)
            elif category in ("cpu_op", "user_annotation"):
                text = name
                if "Sequence number" in args:
                    text += f", seq = {args['Sequence number']}, op_id = 7"
                if "Input Dims" in args:
                    text += f", sizes = {args['Input Dims']}"
                # What torch pushes is a text of its own; a registered string has a number.
                texts = (
                    {"text": text, "textId": None} if ", " in text else {"text": None, "textId": self.string(text)}
                )
                rows["NVTX_EVENTS"].append(times | thread | texts | {"eventType": PUSH_POP, "domainId": 0})
        for table, made in rows.items():
            self.insert_all(table, made)


def write_nsight(trace: TraceBuilder, path: Path, omit: Collection[str] = ()) -> Path:
    NsightWriter(path, omit).take(trace)
    return path
