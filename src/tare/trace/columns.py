"""Events into columns of numbers: one table per category, which grows chunk by chunk.

A chunk is packed by `struct` and appended as bytes. numpy's calls, and its conversion of lists, would cost more
than everything else that is done to a chunk.
"""

from collections.abc import Callable, Iterable, Sequence
from struct import error, pack
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tare.trace import events as kineto
from tare.trace.events import ANNOTATIONS, DEVICE_ANNOTATIONS, FRAMES, MEMORY, Begin, Event, Instant, Span
from tare.trace.intervals import Integers
from tare.trace.tables import COPY, KERNEL, MEMSET

# Between JSON texts, which never contain this byte.
SEPARATOR = b"\0"
# Beyond this, a number of microseconds does not fit an int64 of nanoseconds.
LATEST = 4e15
KINDS = (
    dict.fromkeys(kineto.KERNELS, KERNEL)
    | dict.fromkeys(kineto.COPIES, COPY)
    | dict.fromkeys(kineto.MEMSETS, MEMSET)
)
AddSpans = Callable[[list[Span]], None]
_join = SEPARATOR.join
_NUMBERS = msgspec.json.Decoder(list[int] | None)


class Columns:
    """A table of spans. Times are added in microseconds; `finish` returns nanoseconds."""

    def __init__(self, *names: str) -> None:
        self._times = bytearray(), bytearray()
        self._columns = {name: bytearray() for name in names}
        # Spans without usable times, which `finish` drops.
        self.skipped = 0

    def add(self, starts: list[Any], durations: list[Any], *columns: bytes) -> None:
        for times, values in zip(self._times, (starts, durations), strict=True):
            times += _floats(values)
        for column, chunk in zip(self._columns.values(), columns, strict=True):
            column += chunk

    def finish(self) -> dict[str, Integers]:
        """All columns, with `start` and `end`. The table is empty afterwards."""
        start, length = (np.frombuffer(times) for times in self._times)
        usable = (np.abs(start) < LATEST) & (length >= 0) & (length < LATEST)
        columns = {name: np.frombuffer(column, dtype=np.int64) for name, column in self._columns.items()}
        self._columns, self._times = {}, (bytearray(), bytearray())
        if not usable.all():
            self.skipped = int((~usable).sum())
            start, length = start[usable], length[usable]
            columns = {name: column[usable] for name, column in columns.items()}
        begin = _nanoseconds(start)
        return {"start": begin, "end": begin + _nanoseconds(length), **columns}


class Codes(dict[Any, int]):
    """Assigns consecutive numbers to distinct values."""

    def __missing__(self, value: Any) -> int:
        self[value] = code = len(self)
        return code

    def encode(self, values: Any) -> bytes:
        """The values' numbers, as a column."""
        return _integers(list(map(self.__getitem__, values)))


class RowCodes(Codes):
    """Codes of groups of JSON texts, joined by SEPARATOR. Each distinct group becomes a row of numbers once."""

    def __init__(self, width: int, parse: Callable[[list[bytes]], list[int]]) -> None:
        super().__init__()
        self._width, self._parse = width, parse

    def columns(self, codes: Integers) -> Integers:
        """The rows of these codes, transposed: one array per column."""
        rows = [self._parse(group.split(SEPARATOR)) for group in self]
        return np.array(rows, dtype=np.int64).reshape(-1, self._width).T.take(codes, axis=1)


class Collector:
    """Takes events list by list and holds the raw columns of each table.

    Instead of an operator's inputs and a kernel's launch shape the columns hold codes of `inputs` and `shapes`.
    """

    def __init__(self) -> None:
        self.names, self.texts, self.threads = Codes(), Codes(), Codes()
        self.inputs, self.shapes = RowCodes(4, self._text_codes), RowCodes(6, _launch_shape)
        self.operators = Columns("name", "thread", "sequence", "forward_thread", "inputs")
        self.annotations = Columns("name", "thread", "device")
        self.frames = Columns("name", "thread")
        self.calls = Columns("name", "thread", "correlation")
        self.device = Columns(
            "name", "kind", "device", "stream", "correlation", "bytes", "registers", "shared", "shapes"
        )
        self.memory = Columns("name", "thread", "bytes", "address", "cuda", "device", "allocated", "reserved")
        self.begun = 0
        self._categories: dict[AddSpans, Iterable[str]] = {
            self._add_operators: kineto.OPERATORS,
            self._add_calls: kineto.CALLS,
            self._add_device: KINDS,
            self._add_annotations: (ANNOTATIONS, DEVICE_ANNOTATIONS),
            self._add_frames: (FRAMES,),
        }

    @property
    def skipped(self) -> int:
        """How many events had no usable time; complete when all tables are finished."""
        tables = (self.operators, self.annotations, self.frames, self.calls, self.device, self.memory)
        return sum(table.skipped for table in tables)

    def take(self, events: Sequence[Event]) -> None:
        groups: dict[AddSpans, list[Span]] = {add: [] for add in self._categories}
        group_of = {cat: groups[add] for add, categories in self._categories.items() for cat in categories}.get
        allocations: list[Instant] = []
        for event in events:
            # isinstance is slow here: it asks msgspec's metaclass.
            kind = type(event)
            if kind is Span:
                group = group_of(event.cat)  # type: ignore[union-attr]
                if group is not None:
                    group.append(event)  # type: ignore[arg-type]
            elif kind is Instant and event.name == MEMORY:  # type: ignore[union-attr]
                allocations.append(event)  # type: ignore[arg-type]
            elif kind is Begin:
                self.begun += 1
        for add, group in groups.items():
            if group:
                add(group)
        if allocations:
            self._add_memory(allocations)

    def _add(self, table: Columns, events: list[Span], *columns: bytes) -> None:
        names = self.names.encode([event.name for event in events])
        table.add([event.ts for event in events], [event.dur or 0.0 for event in events], names, *columns)

    def _threads(self, events: Sequence[Span | Instant]) -> bytes:
        pids, tids = [event.pid for event in events], [event.tid for event in events]
        return self.threads.encode(zip(pids, tids, strict=True))

    def _text_codes(self, texts: list[bytes]) -> list[int]:
        return [self.texts[text] if text else -1 for text in texts]

    def _add_operators(self, events: list[Span]) -> None:
        args = [event.args for event in events]
        self._add(
            self.operators,
            events,
            self._threads(events),
            _integers([a.sequence for a in args]),
            _integers([a.forward_thread for a in args]),
            self.inputs.encode([_join((a.dims or a.dims_old, a.types, a.concrete, a.strides)) for a in args]),
        )

    def _add_annotations(self, events: list[Span]) -> None:
        on_device = _integers([event.cat == DEVICE_ANNOTATIONS for event in events])
        self._add(self.annotations, events, self._threads(events), on_device)

    def _add_frames(self, events: list[Span]) -> None:
        self._add(self.frames, events, self._threads(events))

    def _add_calls(self, events: list[Span]) -> None:
        correlation = _integers([event.args.correlation for event in events])
        self._add(self.calls, events, self._threads(events), correlation)

    def _add_device(self, events: list[Span]) -> None:
        args = [event.args for event in events]
        self._add(
            self.device,
            events,
            _integers([KINDS[event.cat] for event in events]),
            _integers([a.device for a in args]),
            _unsigned([a.stream for a in args]),
            _integers([a.correlation for a in args]),
            _integers([a.bytes for a in args]),
            _integers([a.registers for a in args]),
            _integers([a.shared for a in args]),
            self.shapes.encode([_join((a.grid, a.block)) for a in args]),
        )

    def _add_memory(self, events: list[Instant]) -> None:
        args = [event.args for event in events]
        self.memory.add(
            [event.ts for event in events],
            [0.0] * len(events),
            _integers([self.names[MEMORY]] * len(events)),
            self._threads(events),
            _integers([a.bytes for a in args]),
            _unsigned([a.address for a in args]),
            # c10::DeviceType: 0 is the CPU.
            _integers([a.device_type != 0 for a in args]),
            _integers([a.device_number for a in args]),
            _integers([a.allocated for a in args]),
            _integers([a.reserved for a in args]),
        )


def _integers(values: list[Any]) -> bytes:
    try:
        return pack(f"{len(values)}q", *values)
    except error:
        return np.array(values, dtype=np.int64).tobytes()


def _unsigned(values: list[int | str]) -> bytes:
    """Streams or addresses, which may be texts and may lie in the upper half of 64 bits."""
    try:
        return _integers(values)
    except (OverflowError, ValueError):
        return np.array([_wrap(value) for value in values], dtype=np.int64).tobytes()


def _wrap(value: int | str) -> int:
    if isinstance(value, str):
        return int(value) if value.lstrip("-").isdecimal() and len(value) < 18 else -1
    return value - 2**64 if 2**63 <= value < 2**64 else value


def _floats(values: list[Any]) -> bytes:
    """Numbers, texts as the numbers that they spell, and NaN for anything else."""
    try:
        return pack(f"{len(values)}d", *values)
    except error:
        return np.array([_float(value) for value in values], dtype=np.float64).tobytes()


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _nanoseconds(microseconds: npt.NDArray[np.float64]) -> Integers:
    """Integral and fractional parts are converted apart: nanoseconds since 1970 as a float have steps of 256."""
    integral = np.floor(microseconds)
    return integral.astype(np.int64) * 1000 + np.rint((microseconds - integral) * 1000).astype(np.int64)


def _launch_shape(texts: list[bytes]) -> list[int]:
    """A kernel's grid and block."""
    return [number for text in texts for number in _triple(text)]


def _triple(text: bytes) -> list[int]:
    numbers = _NUMBERS.decode(text) if text else None
    return numbers if numbers is not None and len(numbers) == 3 else [-1, -1, -1]
