"""The tables of a trace: frozen, one numpy array a column, times in integer nanoseconds of the trace's own clock.

Row i of a table is entry i of each of its columns. `name` holds numbers of `Trace.names`; -1 in any other column
means that the profiler did not say. Tables are sorted by start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from tare.trace.intervals import Intervals, make

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Device work, `Device.kind`.
KERNEL, COPY, MEMSET = 0, 1, 2
# `Device.direction` of a copy; PEER is one between two devices.
HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, HOST_TO_HOST, PEER = 0, 1, 2, 3, 4
DIRECTIONS = ("host to device", "device to host", "device to device", "host to host", "device to other device")
# `Device.memory` of a copy: the host's side of it.
PAGEABLE, PINNED = 0, 1
# `Calls.kind`: what a call of the CUDA runtime or driver does.
LAUNCH, GRAPH, COPY_CALL, MEMSET_CALL, SYNC, ALLOCATE, OTHER = 0, 1, 2, 3, 4, 5, 6


@dataclass(frozen=True)
class Spans:
    """What every table has."""

    start: Integers
    end: Integers
    name: Integers

    def __len__(self) -> int:
        return len(self.start)

    @property
    def duration(self) -> Integers:
        return self.end - self.start

    def intervals(self, where: Any = slice(None)) -> Intervals:
        """The union of the rows chosen by a mask or by indices."""
        return make(self.start[where], self.end[where])

    def take(self, rows: Any) -> "Spans":
        """The same table with these rows only. Columns that hold row numbers of a table keep them."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True)
class Steps(Spans):
    """The steps of the workload: annotations ProfilerStep#N, or tare's own, or the whole trace as one.

    `counted` is 0 for a step that is left out of all figures (tare.trace.windows.typical)."""

    number: Integers
    thread: Integers
    counted: Integers


@dataclass(frozen=True)
class Operators(Spans):
    """Host operators (cpu_op). `parent` is the row of the operator around it on its thread, or -1."""

    thread: Integers
    parent: Integers
    depth: Integers
    sequence: Integers
    forward_thread: Integers
    # Numbers of Trace.texts: the JSON of the inputs' shapes, types, values and strides; use Trace.value().
    dims: Integers
    types: Integers
    concrete: Integers
    strides: Integers


@dataclass(frozen=True)
class Annotations(Spans):
    """Ranges that a user or a library marked (record_function); `device` is 1 for its image on the device."""

    thread: Integers
    device: Integers


@dataclass(frozen=True)
class Frames(Spans):
    """Python frames, builtins and modules' forwards; only with_stack. `parent` is a row of this table, or -1."""

    thread: Integers
    parent: Integers
    depth: Integers


@dataclass(frozen=True)
class Calls(Spans):
    """Calls of the CUDA (or HIP) runtime and driver; `operator` and `frame` are the innermost rows around them."""

    thread: Integers
    kind: Integers
    correlation: Integers
    operator: Integers
    frame: Integers


@dataclass(frozen=True)
class Device(Spans):
    """Kernels, copies and memsets. `call` is the row of the call that launched it, or -1: an orphan."""

    kind: Integers
    device: Integers
    stream: Integers
    correlation: Integers
    call: Integers
    bytes: Integers
    direction: Integers
    memory: Integers
    registers: Integers
    shared: Integers
    # Shape (n, 3).
    grid: Integers
    block: Integers

    @property
    def kernels(self) -> Mask:
        return np.equal(self.kind, KERNEL)

    @property
    def copies(self) -> Mask:
        return np.equal(self.kind, COPY)


@dataclass(frozen=True)
class Memory(Spans):
    """Allocations (bytes > 0) and releases (bytes < 0); `cuda` is 1 for the device's memory, 0 for the host's."""

    thread: Integers
    bytes: Integers
    address: Integers
    cuda: Integers
    device: Integers
    allocated: Integers
    reserved: Integers


@dataclass(frozen=True)
class Trace:
    """One trace. `metadata` is everything in the document beside the events, unchecked."""

    source: str
    metadata: Mapping[str, Any]
    names: Sequence[str]
    texts: Sequence[bytes]
    threads: Sequence[str]
    steps: Steps
    operators: Operators
    annotations: Annotations
    frames: Frames
    calls: Calls
    device: Device
    memory: Memory
    # How many events were read in all, and how many of a known category had no usable time.
    events: int
    skipped: int
    # Spans that are begun and ended by two events, and so were not read.
    begun: int = 0

    def name(self, table: Spans, row: int) -> str:
        code = int(table.name[row])
        return self.names[code] if code >= 0 else ""

    def named(self, table: Spans, *wanted: str) -> Mask:
        """The rows that bear one of these names."""
        codes = [code for code, name in enumerate(self.names) if name in wanted]
        return np.isin(table.name, codes)

    def value(self, text: int) -> Any:
        """The JSON value behind a number in a column of texts; None where there is none."""
        import msgspec

        return msgspec.json.decode(self.texts[text]) if text >= 0 else None

    @property
    def has_device(self) -> bool:
        return len(self.device) > 0

    @property
    def has_stacks(self) -> bool:
        return len(self.frames) > 0
