"""Events into columns: one collector a category, growing typed arrays instead of Python objects."""

import math
from array import array
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from tare.trace.events import (
    DECODERS,
    CallArgs,
    DeviceArgs,
    Event,
    FrameArgs,
    MemoryArgs,
    OperatorArgs,
    SyncArgs,
)
from tare.trace.intervals import Integers
from tare.trace.naming import call_kind, copy_direction, copy_memory
from tare.trace.tables import COPY, KERNEL, MEMSET

# Beyond this a number of microseconds does not fit an int64 of nanoseconds.
LATEST = 4e15
LARGEST = 2**62


class Columns:
    """A table that grows: a tuple of integers a row."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self._values = array("q")

    def add(self, *row: int) -> None:
        self._values.extend(row)

    def finish(self) -> dict[str, Integers]:
        table = np.frombuffer(self._values, dtype=np.int64).reshape(-1, len(self.names))
        return {name: table[:, i].copy() for i, name in enumerate(self.names)}


class Codes(dict[Any, int]):
    """Equal values get one number."""

    def __missing__(self, value: Any) -> int:
        self[value] = code = len(self)
        return code


class Collector:
    """Takes events one after the other; the tables' raw columns are in `columns`."""

    def __init__(self) -> None:
        self.names, self.texts, self.threads = Codes(), Codes(), Codes()
        span = ("start", "end", "name")
        self.operators = Columns(
            *span, "thread", "external", "sequence", "forward_thread", "dims", "types", "concrete", "strides"
        )
        self.annotations = Columns(*span, "thread", "device")
        self.overhead = Columns(*span, "thread", "device")
        self.frames = Columns(*span, "thread", "identifier", "above", "module")
        self.calls = Columns(*span, "thread", "kind", "driver", "correlation", "external")
        self.device = Columns(
            *span, "kind", "device", "stream", "correlation", "external", "bytes", "direction", "memory",
            "registers", "shared", "graph", "node", "gx", "gy", "gz", "bx", "by", "bz",
        )  # fmt: skip
        self.memory = Columns(*span, "thread", "bytes", "address", "cuda", "device", "allocated", "reserved")
        self.waits = Columns(*span, "device", "stream", "correlation")
        self.skipped = 0
        # Old traces (torch 1.8 to 1.10) capitalise.
        self._by_category: dict[str, Callable[[Event, int, int, int], None]] = {
            "cpu_op": self._operator, "Operator": self._operator, "operator": self._operator,
            "user_annotation": self._annotation, "gpu_user_annotation": self._device_annotation,
            "python_function": self._frame,
            "cuda_runtime": self._call, "Runtime": self._call, "cuda_driver": self._driver_call,
            "hip_runtime": self._call, "hip_driver": self._driver_call,
            "kernel": self._kernel, "Kernel": self._kernel,
            "gpu_memcpy": self._copy, "Memcpy": self._copy,
            "gpu_memset": self._memset, "Memset": self._memset,
            "cuda_sync": self._wait, "overhead": self._overhead, "Overhead": self._overhead,
        }  # fmt: skip

    def take(self, events: list[Event]) -> None:
        get = self._by_category.get
        for event in events:
            if event.ph == "X":
                handler = get(event.cat)
                if handler is None:
                    continue
            elif event.ph == "i" and event.name == "[memory]":
                handler = self._memory
            else:
                continue
            ts, dur = event.ts, event.dur or 0.0
            if not isinstance(ts, float):
                ts = _number(ts)
            if not (-LATEST < ts < LATEST and 0 <= dur < LATEST):
                self.skipped += 1
                continue
            start = round(ts * 1000)
            handler(event, start, start + round(dur * 1000), self.names[event.name])

    def _thread(self, event: Event) -> int:
        return self.threads[event.pid, event.tid]

    def _text(self, raw: msgspec.Raw) -> int:
        text = bytes(raw)
        return self.texts[text] if text else -1

    def _operator(self, event: Event, start: int, end: int, name: int) -> None:
        args: OperatorArgs = DECODERS[OperatorArgs].decode(event.args)
        dims = args.dims if bytes(args.dims) else args.dims_old
        self.operators.add(
            start, end, name, self._thread(event), args.external, args.sequence,
            args.forward_thread, self._text(dims), self._text(args.types), self._text(args.concrete),
            self._text(args.strides),
        )  # fmt: skip

    def _annotation(self, event: Event, start: int, end: int, name: int) -> None:
        self.annotations.add(start, end, name, self._thread(event), 0)

    def _device_annotation(self, event: Event, start: int, end: int, name: int) -> None:
        self.annotations.add(start, end, name, self._thread(event), 1)

    def _overhead(self, event: Event, start: int, end: int, name: int) -> None:
        self.overhead.add(start, end, name, self._thread(event), 0)

    def _frame(self, event: Event, start: int, end: int, name: int) -> None:
        args: FrameArgs = DECODERS[FrameArgs].decode(event.args)
        numbers = (-1 if n is None else n for n in (args.identifier, args.parent, args.module))
        self.frames.add(start, end, name, self._thread(event), *numbers)

    def _call(self, event: Event, start: int, end: int, name: int, driver: int = 0) -> None:
        args: CallArgs = DECODERS[CallArgs].decode(event.args)
        kind = call_kind(str(event.name))
        self.calls.add(start, end, name, self._thread(event), kind, driver, args.correlation, args.external)

    def _driver_call(self, event: Event, start: int, end: int, name: int) -> None:
        self._call(event, start, end, name, driver=1)

    def _kernel(self, event: Event, start: int, end: int, name: int) -> None:
        self._work(event, start, end, name, KERNEL)

    def _copy(self, event: Event, start: int, end: int, name: int) -> None:
        self._work(event, start, end, name, COPY)

    def _memset(self, event: Event, start: int, end: int, name: int) -> None:
        self._work(event, start, end, name, MEMSET)

    def _work(self, event: Event, start: int, end: int, name: int, kind: int) -> None:
        args: DeviceArgs = DECODERS[DeviceArgs].decode(event.args)
        text = str(event.name) if kind == COPY else ""
        self.device.add(
            start, end, name, kind, args.device, _tag(args.stream), args.correlation,
            args.external, args.bytes, copy_direction(text), copy_memory(text),
            args.registers, args.shared, args.graph, args.node,
            *_triple(args.grid), *_triple(args.block),
        )  # fmt: skip

    def _memory(self, event: Event, start: int, end: int, name: int) -> None:
        args: MemoryArgs = DECODERS[MemoryArgs].decode(event.args)
        # DeviceType of c10: 0 is the CPU, 1 CUDA, 20 HIP in some builds; what is not the host is the device.
        self.memory.add(
            start, end, name, self._thread(event), args.bytes, _tag(args.address),
            int(args.device_type != 0), args.device, args.allocated, args.reserved,
        )  # fmt: skip

    def _wait(self, event: Event, start: int, end: int, name: int) -> None:
        args: SyncArgs = DECODERS[SyncArgs].decode(event.args)
        self.waits.add(start, end, name, args.device, _tag(args.stream), args.correlation)


def _fit(number: int) -> int:
    """An address within int64; it may lie beyond its positive half. What else is too large the array refuses."""
    if -LARGEST < number < LARGEST:
        return number
    return number - 2**64 if 2**63 <= number < 2**64 else -1


def _tag(value: int | str) -> int:
    if isinstance(value, str):
        return int(value) if value.lstrip("-").isdecimal() and len(value) < 18 else -1
    return _fit(value)


def _triple(numbers: list[int] | None) -> tuple[int, int, int]:
    if numbers is None or len(numbers) != 3:
        return -1, -1, -1
    return numbers[0], numbers[1], numbers[2]


def _number(text: str | None) -> float:
    try:
        return float(text) if text is not None else math.nan
    except ValueError:
        return math.nan
