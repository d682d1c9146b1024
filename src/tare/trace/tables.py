"""The tables of a trace: frozen, one numpy array per column, times in integer nanoseconds of the trace's clock.

Row i of a table is entry i of each column, and rows are sorted by start. `name` holds indices into `Trace.names`.
In any other column -1 means that the profiler did not record the value.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tare.trace.collective_names import is_collective, is_ordinary, names_collective
from tare.trace.intervals import Integers as Integers
from tare.trace.intervals import Mask as Mask
from tare.trace.intervals import distinct
from tare.trace.messages import CollectiveMessage
from tare.trace.spans import NestedSpans, pick
from tare.trace.spans import Spans as Spans

# Values of `DeviceSpans.kind`.
KERNEL, COPY, MEMSET = 0, 1, 2
# Values of `DeviceSpans.direction`, for copies. PEER is a copy between two devices.
HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, HOST_TO_HOST, PEER = 0, 1, 2, 3, 4
DIRECTIONS = ("host to device", "device to host", "device to device", "host to host", "device to other device")
# Values of `DeviceSpans.memory`, for copies: the host memory that the copy reads or writes.
PAGEABLE, PINNED = 0, 1
# Values of `RuntimeCalls.kind`: what a call of the CUDA runtime or driver does.
LAUNCH, GRAPH, COPY_CALL, MEMSET_CALL, SYNC, ALLOCATE, OTHER = 0, 1, 2, 3, 4, 5, 6
# Those of calls that have work on the device.
WORKING = (LAUNCH, GRAPH, COPY_CALL, MEMSET_CALL)


@dataclass(frozen=True)
class StepSpans(Spans):
    """The steps: annotations ProfilerStep#N or tare's own, or the whole trace as one step.

    `counted` is 0 for an outlier that no figure includes (windows.drop_outlier_steps).
    """

    number: Integers
    thread: Integers
    counted: Integers

    @property
    def marked(self) -> bool:
        """Whether the trace itself names its steps: otherwise they were found, or the whole trace is one."""
        return len(self) > 0 and int(self.name[0]) >= 0


@dataclass(frozen=True)
class OperatorSpans(NestedSpans):
    """Host operators (cpu_op)."""

    sequence: Integers
    forward_thread: Integers
    # Indices into Trace.inputs, and into Trace.messages.
    inputs: Integers
    message: Integers


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
class FrameSpans(NestedSpans):
    """Python frames, builtins and nn.Module forwards, recorded only with_stack.

    `line`, `module` and `loader` are the rows of the nearest frame that is, or lies in, a line of the user's code,
    a module, a data loader; or -1.
    """

    line: Integers
    module: Integers
    loader: Integers


@dataclass(frozen=True)
class RuntimeCalls(Spans):
    """Calls of the CUDA or HIP runtime and driver, with the rows of the innermost operator and frame around."""

    thread: Integers
    kind: Integers
    correlation: Integers
    operator: Integers
    frame: Integers

    @property
    def launches(self) -> Mask:
        """The calls that launch kernels or graphs."""
        return np.equal(self.kind, LAUNCH) | np.equal(self.kind, GRAPH)


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
    # Indices into Trace.messages.
    message: Integers
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
    # All events of the file; those skipped for want of a usable time; spans that begin (phase B) and never end.
    events: int
    skipped: int
    begun: int = 0
    # What collectives say of their messages; the first says nothing.
    messages: Sequence[CollectiveMessage] = (CollectiveMessage(),)
    # What functions decorated with `once` have found out.
    known: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def name(self, table: Spans, row: int) -> str:
        code = int(table.name[row])
        return self.names[code] if code >= 0 else ""

    def named(self, table: Spans, *names: str) -> Mask:
        """The rows with one of these names."""
        return self.matching(table, lambda name: name in names)

    def matching(self, table: Spans, predicate: Callable[[str], Any]) -> Mask:
        """The rows with a name for which the predicate is true."""
        found = [code for code in table.names_used.tolist() if predicate(self.names[code])]
        if not found:
            return np.zeros(len(table), dtype=bool)
        matches = np.zeros(len(self.names), dtype=bool)
        matches[found] = True
        return matches[table.name]

    @cached_property
    def forward_operator(self) -> Integers:
        """For each operator of a backward pass the forward operator that it belongs to, else -1.

        Autograd gives both the same sequence number.
        """
        operators = self.operators
        forward = np.flatnonzero((operators.sequence >= 0) & (operators.forward_thread <= 0))
        origin = lookup(operators.sequence[forward[::-1]], forward[::-1], operators.sequence)
        return operators.inherit(np.where(operators.forward_thread > 0, origin, -1))

    @cached_property
    def forward_frame(self) -> Integers:
        """For each operator of a backward pass the frame of its forward operator, else -1."""
        operators, forward = self.operators, self.forward_operator
        rows = distinct(forward[forward >= 0])
        frame = np.full(len(operators), -1, dtype=np.int64)
        frame[rows] = self.frames.innermost(operators.thread[rows], operators.start[rows])
        return pick(frame, forward)

    @cached_property
    def communicates(self) -> Mask:
        """The device work that is a collective, or a part of one: by its own name, or because a collective
        operation launched it."""
        device, operators = self.device, self.operators
        within = self.matching(operators, names_collective)
        around = operators.inherit(np.where(within, np.arange(len(operators)), -1)) >= 0
        operator = pick(self.calls.operator, device.call)
        launched = (operator >= 0) & np.append(around, False)[operator]
        stated = device.message > 0
        # A collective also launches ordinary kernels: to scale, to flatten, to copy.
        ordinary = self.matching(device, is_ordinary)
        found: Mask = device.kernels & (self.matching(device, is_collective) | ((launched | stated) & ~ordinary))
        return found

    def inputs_of(self, operator: int) -> OperatorInputs:
        return self.inputs[int(self.operators.inputs[operator])]

    @property
    def has_device(self) -> bool:
        return len(self.device) > 0

    @property
    def has_stacks(self) -> bool:
        return len(self.frames) > 0


Result = TypeVar("Result")


def once(function: Callable[[Trace], Result]) -> Callable[[Trace], Result]:
    """Computes what a function says of a trace once: tables do not change, and several parts of a report ask."""
    key = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def remembering(trace: Trace) -> Result:
        if key not in trace.known:
            trace.known[key] = function(trace)
        result: Result = trace.known[key]
        return result

    return remembering


def lookup(keys: Integers, rows: Integers, wanted: Integers) -> Integers:
    """For each wanted key the row that has it, or -1. Of several rows with one key the first counts."""
    if len(keys) == 0:
        return np.full(len(wanted), -1, dtype=np.int64)
    keys, first = np.unique(keys, return_index=True)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, rows[first[at]], -1)
