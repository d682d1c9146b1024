"""XSpace: the profile that XLA's profilers write for JAX and TensorFlow (`*.xplane.pb`), read within bounds.

A plane is a device or a host, a line is a stream or a thread, and events have statistics with names. Messages are
decoded when they are asked for: a profile also contains the compiled programs, which nobody reads here.
The definition is tsl/profiler/protobuf/xplane.proto; the names are those of XLA's profiler/utils/xplane_schema.cc.
What is damaged raises DamagedMessage.
"""

import re
import struct
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tare.errors import BadInput
from tare.system.bounded_files import read_bounded
from tare.system.protobuf import FIXED64, LENGTH, VARINT, DamagedMessage, Extent, fields, key, signed, text, varint

# protobuf's own limit.
LARGEST_PROFILE = 2 << 30
# A profile may have this many messages, or one for each byte of its file if that is more: compressed messages of
# two bytes each would fill the memory. A name is kept, and counts as several.
FEW_MESSAGES, NAME = 500_000, 8

Value = int | float | str
Stats = dict[str, Value]

_PLANES = key(1, LENGTH)
_PLANE_ID, _PLANE_NAME, _LINES = key(1, VARINT), key(2, LENGTH), key(3, LENGTH)
_EVENT_METADATA, _STAT_METADATA, _PLANE_STATS = key(4, LENGTH), key(5, LENGTH), key(6, LENGTH)
_ENTRY_KEY, _ENTRY_VALUE = key(1, VARINT), key(2, LENGTH)
_METADATA_NAME, _METADATA_STATS = key(2, LENGTH), key(5, LENGTH)
_LINE_ID, _LINE_NAME, _LINE_START, _EVENTS = key(1, VARINT), key(2, LENGTH), key(3, VARINT), key(4, LENGTH)
_EVENT_KIND, _OFFSET, _DURATION, _STATS = key(1, VARINT), key(2, VARINT), key(3, VARINT), key(4, LENGTH)
_STAT_NAME, _DOUBLE, _UINT64, _INT64 = key(1, VARINT), key(2, FIXED64), key(3, VARINT), key(4, VARINT)
_TEXT, _REFERENCE = key(5, LENGTH), key(7, VARINT)

_DEVICE = re.compile(r"/device:[A-Z]+:(\d{1,6})")
HOST = "/host:"
# A GPU's lines are its streams. Those of a TPU show the same work again and again: as programs, operators, steps.
_STREAM, TPU_OPERATORS = re.compile(r"Stream #(\d{1,9})"), "XLA Ops"
# What the profiler notes on a stream, and no stream executes.
_NOTES = ("MemoryAlloc", "MemoryFree", "MemoryResidency", "HostRegister", "Synchronization")
# TensorFlow's name for the run of an operator: 'matmul_1:MatMul' (tf_op_utils.cc).
_EAGER_KERNEL = re.compile(r"KernelAndDevice(Op|Func)::Run")
_TF_OPERATOR = re.compile(r"[A-Za-z0-9.][\w.\\/>-]*:[A-Z_]\w*")


class XEvent(NamedTuple):
    """Times are nanoseconds on the clock of the profile."""

    name: str
    start: int
    end: int
    stats: Stats


class XLine(NamedTuple):
    """A stream, a thread, or a view of a device. `start` is in nanoseconds."""

    plane: "XPlane"
    id: int
    name: str
    start: int
    extent: Extent

    @property
    def events(self) -> Iterator[XEvent]:
        return self.plane.events_of(self)

    @property
    def stream(self) -> int | None:
        """The number of a device's stream; None for any other line."""
        return 0 if self.name == TPU_OPERATORS else stream_number(self.name)


class XSpace:
    """The planes of a file. BadInput where it exceeds a bound."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.data = read_bounded(path, LARGEST_PROFILE)
        self._messages_left = max(FEW_MESSAGES, path.stat().st_size)
        found = fields(self.data, (0, len(self.data)))
        self.planes = [XPlane(self, extent) for field, _, extent in found if field == _PLANES]

    def count(self, messages: int = 1) -> None:
        self._messages_left -= messages
        if self._messages_left < 0:
            raise BadInput(f"{self._path} has too many events for its size, and is not read")


class XPlane:
    def __init__(self, space: XSpace, extent: Extent) -> None:
        self._space, self._data = space, space.data
        self.name = ""
        kinds = (_LINES, _EVENT_METADATA, _STAT_METADATA, _PLANE_STATS)
        self._extents: dict[int, list[Extent]] = {kind: [] for kind in kinds}
        for field, _, place in fields(self._data, extent):
            space.count(NAME)
            if field == _PLANE_NAME:
                self.name = text(self._data, place)
            elif field in self._extents:
                self._extents[field].append(place)

    @property
    def device(self) -> int | None:
        """The number of the device; None for a host and for anything else."""
        return device_number(self.name)

    @property
    def stats(self) -> Stats:
        return self._read_stats(self._extents[_PLANE_STATS])

    @cached_property
    def lines(self) -> list[XLine]:
        return list(map(self._read_line, self._extents[_LINES]))

    def events_of(self, line: XLine) -> Iterator[XEvent]:
        for field, _, place in fields(self._data, line.extent):
            if field == _EVENTS:
                yield self._read_event(place, line.start)

    @cached_property
    def _stat_names(self) -> dict[int, str]:
        entries = map(self._read_entry, self._extents[_STAT_METADATA])
        return {number: name for number, name, _ in entries}

    @cached_property
    def _event_kinds(self) -> dict[int, tuple[str, Stats]]:
        """The name of each kind of event, and the statistics that all its events share."""
        entries = map(self._read_entry, self._extents[_EVENT_METADATA])
        return {number: (name, self._read_stats(stats)) for number, name, stats in entries}

    def _read_event(self, extent: Extent, line_start: int) -> XEvent:
        self._space.count()
        kind = offset = duration = 0
        own: list[Extent] = []
        for field, value, place in fields(self._data, extent):
            if field == _EVENT_KIND:
                kind = value
            elif field == _OFFSET:
                offset = signed(value)
            elif field == _DURATION:
                duration = signed(value)
            elif field == _STATS:
                own.append(place)
        name, stats = self._event_kinds.get(kind, ("", {}))
        # Offset and duration are picoseconds. Both ends are rounded, so that neighbours stay neighbours.
        start, end = ((moment + 500) // 1000 for moment in (offset, offset + duration))
        return XEvent(name, line_start + start, line_start + end, stats | self._read_stats(own) if own else stats)

    def _read_line(self, extent: Extent) -> XLine:
        number, name, start = 0, "", 0
        for field, value, place in fields(self._data, extent):
            if field == _LINE_ID:
                number = signed(value)
            elif field == _LINE_NAME:
                name = text(self._data, place)
            elif field == _LINE_START:
                start = signed(value)
        return XLine(self, number, name, start, extent)

    def _read_entry(self, extent: Extent) -> tuple[int, str, list[Extent]]:
        """An entry of a map: the number of a kind of event or of a statistic, its name, and its statistics."""
        number, name, stats = 0, "", []
        for field, value, place in fields(self._data, extent):
            if field == _ENTRY_KEY:
                number = value
            elif field == _ENTRY_VALUE:
                for inner, _, inside in fields(self._data, place):
                    if inner == _METADATA_NAME:
                        name = text(self._data, inside)
                    elif inner == _METADATA_STATS:
                        stats.append(inside)
        return number, name, stats

    def _read_stats(self, extents: list[Extent]) -> Stats:
        stats: Stats = {}
        for extent in extents:
            self._space.count()
            name = 0
            found: Value | None = None
            for field, value, place in fields(self._data, extent):
                if field == _STAT_NAME:
                    name = value
                elif field == _TEXT:
                    found = text(self._data, place)
                elif field == _REFERENCE:
                    found = self._stat_names.get(value, "")
                elif field == _UINT64:
                    found = value
                elif field == _INT64:
                    found = signed(value)
                elif field == _DOUBLE:
                    found = struct.unpack("<d", self._data[slice(*place)])[0]
            if found is not None:
                stats[self._stat_names.get(name, "")] = found
        return stats


def begins_like_xspace(head: bytes) -> bool:
    """Whether a file begins with a plane that has a name."""
    try:
        field, at = varint(head, 0, len(head))
        _, at = varint(head, at, len(head))
        for inner, _, place in fields(head, (at, len(head))):
            if inner != _PLANE_ID:
                return field == _PLANES and inner == _PLANE_NAME and text(head, place).isprintable()
    except DamagedMessage:
        pass
    return False


# What the names of planes, lines and events say, also where a profile was written as a Chrome trace.


def device_number(plane: str) -> int | None:
    match = _DEVICE.fullmatch(plane)
    return int(match[1]) if match else None


def stream_number(line: str) -> int | None:
    match = _STREAM.match(line)
    return int(match[1]) if match else None


def is_device_work(event: str) -> bool:
    """Whether an event of a stream is a kernel, a copy or a memset, and no note of the profiler."""
    return not event.startswith(_NOTES)


def is_copy(event: str, stats: Stats) -> bool:
    return "memcpy_details" in stats or event.startswith("Memcpy")


def is_eager_kernel(event: str) -> bool:
    """Whether TensorFlow runs an operation by itself. The graph of a function is such an event too, with those of
    its operations inside."""
    return bool(_EAGER_KERNEL.fullmatch(event))


def is_operator(event: str, stats: Stats) -> bool:
    """Whether the host computes in it: an operation that XLA compiled, or a kernel of TensorFlow."""
    return "hlo_op" in stats or bool(_TF_OPERATOR.fullmatch(event))
