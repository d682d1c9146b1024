"""The tables of a trace: frozen, one numpy array per column, times in integer nanoseconds of the trace's clock.

Row i of a table is entry i of each column, and rows are sorted by start. `name` holds indices into `Trace.names`.
In any other column -1 means that the profiler did not record the value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from tare.trace.intervals import Integers as Integers
from tare.trace.intervals import Intervals, make
from tare.trace.intervals import Mask as Mask
from tare.trace.nesting import nest, order

# Values of `DeviceSpans.kind`.
KERNEL, COPY, MEMSET = 0, 1, 2
# Values of `DeviceSpans.direction`, for copies. PEER is a copy between two devices.
HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, HOST_TO_HOST, PEER = 0, 1, 2, 3, 4
DIRECTIONS = ("host to device", "device to host", "device to device", "host to host", "device to other device")
# Values of `DeviceSpans.memory`, for copies: the host memory that the copy reads or writes.
PAGEABLE, PINNED = 0, 1
# Values of `RuntimeCalls.kind`: what a call of the CUDA runtime or driver does.
LAUNCH, GRAPH, COPY_CALL, MEMSET_CALL, SYNC, ALLOCATE, OTHER = 0, 1, 2, 3, 4, 5, 6


@dataclass(frozen=True)
class Spans:
    """The columns of every table."""

    start: Integers
    end: Integers
    name: Integers

    def __len__(self) -> int:
        return len(self.start)

    @property
    def duration(self) -> Integers:
        return self.end - self.start

    def intervals(self, where: Any = slice(None)) -> Intervals:
        """The union of the rows selected by a mask or by indices."""
        return make(self.start[where], self.end[where])

    def take(self, rows: Any) -> "Spans":
        """The table with these rows only. Columns that hold row numbers keep their values."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


class MergedSpans:
    """Several tables in one stack per thread. `rows` are positions in the tables, one after the other."""

    def __init__(self, *tables: Any) -> None:
        self.start, self.end, self.name, self.thread = (
            np.concatenate([getattr(table, column) for table in tables])
            for column in ("start", "end", "name", "thread")
        )
        self.rows = order(self.start, self.end)
        self.start, self.end, self.name, self.thread = (
            column.take(self.rows) for column in (self.start, self.end, self.name, self.thread)
        )
        self.parent, self.depth = nest(self.thread, self.start, self.end)


@dataclass(frozen=True)
class StepSpans(Spans):
    """The steps: annotations ProfilerStep#N or tare's own, or the whole trace as one step.

    `counted` is 0 for an outlier that no figure includes (windows.drop_outlier_steps).
    """

    number: Integers
    thread: Integers
    counted: Integers


@dataclass(frozen=True)
class OperatorSpans(Spans):
    """Host operators (cpu_op). `parent` is the row of the enclosing operator on the same thread, or -1."""

    thread: Integers
    parent: Integers
    depth: Integers
    sequence: Integers
    forward_thread: Integers
    # Indices into Trace.inputs.
    inputs: Integers


class OperatorInputs(NamedTuple):
    """The shapes, types, values and strides of an operator's inputs as JSON; empty where not recorded."""

    dims: bytes
    types: bytes
    concrete: bytes
    strides: bytes


@dataclass(frozen=True)
class Annotations(Spans):
    """record_function ranges. `device` is 1 for the range's image on the device (gpu_user_annotation)."""

    thread: Integers
    device: Integers


@dataclass(frozen=True)
class FrameSpans(Spans):
    """Python frames, builtins and nn.Module forwards, recorded only with_stack. `parent` is a row here, or -1."""

    thread: Integers
    parent: Integers
    depth: Integers


@dataclass(frozen=True)
class RuntimeCalls(Spans):
    """Calls of the CUDA or HIP runtime and driver, with the rows of the innermost operator and frame around."""

    thread: Integers
    kind: Integers
    correlation: Integers
    operator: Integers
    frame: Integers


@dataclass(frozen=True)
class DeviceSpans(Spans):
    """Kernels, copies and memsets. `call` is the row of the launching call, or -1 for an orphan."""

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
class MemoryEvents(Spans):
    """Allocations (bytes > 0) and releases (bytes < 0). `cuda` is 1 for device memory, 0 for host memory."""

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
    inputs: Sequence[OperatorInputs]
    threads: Sequence[str]
    steps: StepSpans
    operators: OperatorSpans
    annotations: Annotations
    frames: FrameSpans
    calls: RuntimeCalls
    device: DeviceSpans
    memory: MemoryEvents
    # All events of the file; those skipped for want of a usable time; those with phase B, which are not read.
    events: int
    skipped: int
    begun: int = 0

    def name(self, table: Spans, row: int) -> str:
        code = int(table.name[row])
        return self.names[code] if code >= 0 else ""

    def named(self, table: Spans, *names: str) -> Mask:
        """The rows with one of these names."""
        return np.isin(table.name, [code for code, name in enumerate(self.names) if name in names])

    def inputs_of(self, operator: int) -> OperatorInputs:
        return self.inputs[int(self.operators.inputs[operator])]

    @property
    def has_device(self) -> bool:
        return len(self.device) > 0

    @property
    def has_stacks(self) -> bool:
        return len(self.frames) > 0
