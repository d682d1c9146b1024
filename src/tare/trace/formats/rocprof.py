"""rocprofv3's document (`--output-format json`): records of HIP, HSA and RCCL calls, kernels, copies and markers.

A record has numbers for its agent, its operation and its kernel, whose names are in lists of their own
(source/docs/rocprofv3-schema.json of rocprofiler-sdk). A kernel has the correlation id of its launching call.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tare.errors import BadInput, brief
from tare.system.bounded_files import read_json
from tare.trace.events import Event, EventArgs, in_lists, span, triple
from tare.trace.formats import TraceFormat, trace_format
from tare.trace.formats.ranges import range_event

# The types of agents.
CPU, GPU = 1, 2
# Correlation ids are counted in every process.
CORRELATION_BITS = 32
# MEMORY_COPY_HOST_TO_DEVICE, and CopyHostToDevice of rocprof v1 and v2.
_DIRECTION = re.compile(r"(H|D)(?:ost|evice)_?to_?(H|D)(?:ost|evice)", re.I)


class RocmHandle(msgspec.Struct, frozen=True, gc=False):
    handle: int = -1


class RocmCorrelation(msgspec.Struct, frozen=True, gc=False):
    internal: int = -1


class RocmSize(msgspec.Struct, frozen=True, gc=False):
    x: int = -1
    y: int = -1
    z: int = -1


class RocmRecord(msgspec.Struct, frozen=True, gc=False):
    """What all records have, and all that those of calls and markers have. Times are nanoseconds."""

    kind: int = -1
    operation: int = -1
    thread_id: int = 0
    correlation_id: RocmCorrelation = RocmCorrelation()
    start_timestamp: int = 0
    end_timestamp: int = -1


class RocmDispatch(msgspec.Struct, frozen=True, gc=False):
    agent_id: RocmHandle = RocmHandle()
    queue_id: RocmHandle = RocmHandle()
    kernel_id: int = -1
    group_segment_size: int = -1
    workgroup_size: RocmSize = RocmSize()
    # In threads, not in workgroups.
    grid_size: RocmSize = RocmSize()


class RocmKernel(RocmRecord, frozen=True, gc=False):
    dispatch_info: RocmDispatch = RocmDispatch()
    stream_id: RocmHandle | None = None


class RocmCopy(RocmRecord, frozen=True, gc=False):
    src_agent_id: RocmHandle = RocmHandle()
    dst_agent_id: RocmHandle = RocmHandle()
    stream_id: RocmHandle | None = None
    bytes: int = -1


class RocmRecords(msgspec.Struct, frozen=True):
    kernel_dispatch: list[RocmKernel] = []
    memory_copy: list[RocmCopy] = []
    hip_api: list[RocmRecord] = []
    hsa_api: list[RocmRecord] = []
    rccl_api: list[RocmRecord] = []
    marker_api: list[RocmRecord] = []


class RocmAgent(msgspec.Struct, frozen=True):
    id: RocmHandle = RocmHandle()
    type: int = 0
    # Among the agents of its type.
    logical_node_type_id: int = -1
    name: str = ""
    product_name: str = ""


class RocmSymbol(msgspec.Struct, frozen=True):
    kernel_id: int = -1
    formatted_kernel_name: str = ""
    kernel_name: str = ""
    arch_vgpr_count: int = -1


class RocmOperations(msgspec.Struct, frozen=True):
    kind: str = ""
    operations: list[str] = []


class RocmMessage(msgspec.Struct, frozen=True):
    """What a program marked, by the correlation id of the marker."""

    key: int = -1
    value: str = ""


class RocmStrings(msgspec.Struct, frozen=True):
    buffer_records: list[RocmOperations] = []
    marker_api: list[RocmMessage] = []


class RocmMetadata(msgspec.Struct, frozen=True):
    pid: int = 0


class RocmProcess(msgspec.Struct, frozen=True):
    metadata: RocmMetadata = RocmMetadata()
    agents: list[RocmAgent] = []
    strings: RocmStrings = RocmStrings()
    kernel_symbols: list[RocmSymbol] = []
    buffer_records: RocmRecords = RocmRecords()


class RocmDocument(msgspec.Struct, frozen=True):
    processes: list[RocmProcess] = msgspec.field(name="rocprofiler-sdk-tool")


@trace_format
class RocprofDocument(TraceFormat):
    name = "rocprofv3"
    endings = ()

    @staticmethod
    def begins(head: bytes) -> bool:
        return b'"rocprofiler-sdk-tool"' in head

    def __iter__(self) -> Iterator[list[Event]]:
        try:
            processes = msgspec.json.decode(read_json(self.path), type=RocmDocument).processes
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadInput(f"the trace {self.path} is no document of rocprofv3: {brief(error)}") from None
        gpus = {agent.id: agent for process in processes for agent in process.agents if agent.type == GPU}
        self.metadata["deviceProperties"] = [
            {"id": agent.logical_node_type_id, "name": f"AMD {agent.product_name or agent.name}"}
            for agent in gpus.values()
        ]
        # Times count from the start of the machine.
        first = min((record.start_timestamp for process in processes for record in _on_device(process)), default=0)
        for number, process in enumerate(processes):
            yield from in_lists(_Records(process, first, number << CORRELATION_BITS).events())


def _on_device(process: RocmProcess) -> Iterator[RocmRecord]:
    yield from process.buffer_records.kernel_dispatch
    yield from process.buffer_records.memory_copy


class _Records:
    """The records of a process as events."""

    def __init__(self, process: RocmProcess, first: int, first_correlation: int) -> None:
        self._records, self._first = process.buffer_records, first
        self._process, self._first_correlation = process.metadata.pid, first_correlation
        self._agents = {agent.id: agent for agent in process.agents}
        self._symbols = {symbol.kernel_id: symbol for symbol in process.kernel_symbols}
        self._operations = [kind.operations for kind in process.strings.buffer_records]
        self._messages = {message.key: message.value for message in process.strings.marker_api}
        self._callers = _callers(self._records.hip_api, self._records.hsa_api)

    def events(self) -> Iterator[Event]:
        records = self._records
        for kernel in records.kernel_dispatch:
            info = kernel.dispatch_info
            symbol = self._symbols.get(info.kernel_id, RocmSymbol())
            name = symbol.formatted_kernel_name or symbol.kernel_name.removesuffix(".kd")
            launch = {"registers": symbol.arch_vgpr_count, "shared": info.group_segment_size} | _shape(info)
            stream = (kernel.stream_id or info.queue_id).handle
            yield self._work("kernel", name, kernel, self._device(info.agent_id), stream, launch)
        for copy in records.memory_copy:
            source, target = (self._agents.get(end, RocmAgent()) for end in (copy.src_agent_id, copy.dst_agent_id))
            name = copy_name(self._operation(copy), source.type == target.type == GPU and source.id != target.id)
            device = target if target.type == GPU else source
            stream = copy.stream_id.handle if copy.stream_id else -1
            yield self._work("gpu_memcpy", name, copy, self._device(device.id), stream, {"bytes": copy.bytes})
        # HIP works through HSA. Where both were traced, HSA's calls only say whose the work is.
        for call in (*(records.hip_api or records.hsa_api), *records.rccl_api):
            args = EventArgs(correlation=self._correlation(call))
            yield span("hip_runtime", self._operation(call), self._thread(call), *self._times(call), args)
        for marker in records.marker_api:
            message = self._messages.get(marker.correlation_id.internal, "")
            if message and marker.end_timestamp > marker.start_timestamp:
                yield range_event(message, self._thread(marker), *self._times(marker))

    def _work(
        self, category: str, name: str, record: RocmRecord, device: int, stream: int, more: dict[str, Any]
    ) -> Event:
        args = EventArgs(device=device, stream=stream, correlation=self._correlation(record), **more)
        return span(category, name, (f"{self._process} device {device}", stream), *self._times(record), args)

    def _operation(self, record: RocmRecord) -> str:
        known = 0 <= record.kind < len(self._operations)
        operations = self._operations[record.kind] if known else []
        return operations[record.operation] if 0 <= record.operation < len(operations) else ""

    def _device(self, agent: RocmHandle) -> int:
        return max(self._agents.get(agent, RocmAgent()).logical_node_type_id, 0)

    def _thread(self, record: RocmRecord) -> tuple[int, int]:
        return self._process, record.thread_id

    def _times(self, record: RocmRecord) -> tuple[int, int]:
        return record.start_timestamp - self._first, record.end_timestamp - self._first

    def _correlation(self, record: RocmRecord) -> int:
        known = self._callers.get(record.correlation_id.internal, record.correlation_id.internal)
        return self._first_correlation + known if known > 0 else -1


def _callers(callers: Sequence[RocmRecord], called: Sequence[RocmRecord]) -> dict[int, int]:
    """By the correlation id of an inner call, that of the call of the same thread that contains it."""
    threads: dict[int, list[RocmRecord]] = {}
    for call in sorted(callers, key=lambda call: call.start_timestamp):
        threads.setdefault(call.thread_id, []).append(call)
    found = {}
    for call in called:
        outer = threads.get(call.thread_id, [])
        at = bisect_right(outer, call.start_timestamp, key=lambda call: call.start_timestamp) - 1
        if at >= 0 and call.end_timestamp <= outer[at].end_timestamp:
            found[call.correlation_id.internal] = outer[at].correlation_id.internal
    return found


def copy_name(operation: str, between_devices: bool = False) -> str:
    """As torch.profiler names copies: 'Memcpy HtoD'."""
    match = _DIRECTION.search(operation)
    if between_devices:
        return "Memcpy PtoP"
    return f"Memcpy {match[1].upper()}to{match[2].upper()}" if match else operation


def _shape(info: RocmDispatch) -> dict[str, msgspec.Raw]:
    """Grid and block. HIP counts the grid in workgroups."""
    block = info.workgroup_size.x, info.workgroup_size.y, info.workgroup_size.z
    threads = info.grid_size.x, info.grid_size.y, info.grid_size.z
    if min(*block, *threads) < 1:
        return {}
    return {
        "grid": triple(*(-(-all // one) for all, one in zip(threads, block, strict=True))),
        "block": triple(*block),
    }
