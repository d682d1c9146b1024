"""Events into columns: a table a category, each grown by whole pieces of the trace."""

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from tare.trace import events as kineto
from tare.trace.columns import SEPARATOR, Codes, Columns, Interned, integers
from tare.trace.events import ANNOTATIONS, DEVICE_ANNOTATIONS, FRAMES, MEMORY, Begin, Event, Instant, Span
from tare.trace.tables import COPY, KERNEL, MEMSET

KINDS = (
    dict.fromkeys(kineto.KERNELS, KERNEL)
    | dict.fromkeys(kineto.COPIES, COPY)
    | dict.fromkeys(kineto.MEMSETS, MEMSET)
)
Taker = Callable[[list[Span]], None]
_join = SEPARATOR.join
_NUMBERS = msgspec.json.Decoder(list[int] | None)


class Collector:
    """Takes events piece by piece; the tables' raw columns are its attributes.

    Instead of an operator's inputs and a kernel's shape the columns hold numbers of `inputs` and `shapes`."""

    def __init__(self) -> None:
        self.names, self.texts, self.threads = Codes(), Codes(), Codes()
        self.inputs, self.shapes = Interned(4, self._text_codes), Interned(6, _two_triples)
        self.operators = Columns("name", "thread", "sequence", "forward_thread", "inputs")
        self.annotations = Columns("name", "thread", "device")
        self.frames = Columns("name", "thread")
        self.calls = Columns("name", "thread", "correlation")
        self.device = Columns(
            "name", "kind", "device", "stream", "correlation", "bytes", "registers", "shared", "shapes"
        )
        self.memory = Columns("name", "thread", "bytes", "address", "cuda", "device", "allocated", "reserved")
        # Spans that are begun and ended by events of their own, which nothing here reads.
        self.begun = 0
        self._takers: dict[Taker, Iterable[str]] = {
            self._operators: kineto.OPERATORS,
            self._calls: kineto.CALLS,
            self._work: KINDS,
            self._annotations: (ANNOTATIONS, DEVICE_ANNOTATIONS),
            self._frames: (FRAMES,),
        }

    @property
    def skipped(self) -> int:
        """How many events had no usable times; known when the tables are finished."""
        tables = (self.operators, self.annotations, self.frames, self.calls, self.device, self.memory)
        return sum(table.skipped for table in tables)

    def take(self, events: Sequence[Event]) -> None:
        groups: dict[Taker, list[Span]] = {taker: [] for taker in self._takers}
        find = {cat: groups[taker] for taker, categories in self._takers.items() for cat in categories}.get
        allocations: list[Instant] = []
        for event in events:
            # Not isinstance, which asks msgspec's metaclass about each of the many that are neither.
            kind = type(event)
            if kind is Span:
                group = find(event.cat)  # type: ignore[union-attr]
                if group is not None:
                    group.append(event)  # type: ignore[arg-type]
            elif kind is Instant and event.name == MEMORY:  # type: ignore[union-attr]
                allocations.append(event)  # type: ignore[arg-type]
            elif kind is Begin:
                self.begun += 1
        for taker, group in groups.items():
            if group:
                taker(group)
        if allocations:
            self._allocations(allocations)

    def _add(self, table: Columns, events: list[Span], *columns: bytes) -> None:
        names = self.names.of([event.name for event in events])
        table.add([event.ts for event in events], [event.dur or 0.0 for event in events], names, *columns)

    def _threads(self, events: Sequence[Span | Instant]) -> bytes:
        return self.threads.of(zip([event.pid for event in events], [event.tid for event in events], strict=True))

    def _text_codes(self, texts: list[bytes]) -> list[int]:
        """Numbers for the JSON of an operator's inputs."""
        return [self.texts[text] if text else -1 for text in texts]

    def _operators(self, events: list[Span]) -> None:
        args = [event.args for event in events]
        self._add(
            self.operators,
            events,
            self._threads(events),
            integers([a.sequence for a in args]),
            integers([a.forward_thread for a in args]),
            self.inputs.of([_join((a.dims or a.dims_old, a.types, a.concrete, a.strides)) for a in args]),
        )

    def _annotations(self, events: list[Span]) -> None:
        on_device = integers([event.cat == DEVICE_ANNOTATIONS for event in events])
        self._add(self.annotations, events, self._threads(events), on_device)

    def _frames(self, events: list[Span]) -> None:
        self._add(self.frames, events, self._threads(events))

    def _calls(self, events: list[Span]) -> None:
        correlation = integers([event.args.correlation for event in events])
        self._add(self.calls, events, self._threads(events), correlation)

    def _work(self, events: list[Span]) -> None:
        args = [event.args for event in events]
        self._add(
            self.device,
            events,
            integers([KINDS[event.cat] for event in events]),
            integers([a.device for a in args]),
            _tags([a.stream for a in args]),
            integers([a.correlation for a in args]),
            integers([a.bytes for a in args]),
            integers([a.registers for a in args]),
            integers([a.shared for a in args]),
            self.shapes.of([_join((a.grid, a.block)) for a in args]),
        )

    def _allocations(self, events: list[Instant]) -> None:
        args = [event.args for event in events]
        self.memory.add(
            [event.ts for event in events],
            [0.0] * len(events),
            integers([self.names[MEMORY]] * len(events)),
            self._threads(events),
            integers([a.bytes for a in args]),
            _tags([a.address for a in args]),
            # DeviceType of c10: 0 is the host; whatever else is a device.
            integers([a.device_type != 0 for a in args]),
            integers([a.device_number for a in args]),
            integers([a.allocated for a in args]),
            integers([a.reserved for a in args]),
        )


def _tags(values: list[int | str]) -> bytes:
    """Streams or addresses, which may lie in the upper half of 64 bits."""
    try:
        return integers(values)
    except (OverflowError, ValueError):
        return np.array([_tag(value) for value in values], dtype=np.int64).tobytes()


def _tag(value: int | str) -> int:
    if isinstance(value, str):
        return int(value) if value.lstrip("-").isdecimal() and len(value) < 18 else -1
    return value - 2**64 if 2**63 <= value < 2**64 else value


def _two_triples(texts: list[bytes]) -> list[int]:
    """A grid and a block."""
    grid, block = texts
    return [*_triple(grid), *_triple(block)]


def _triple(text: bytes) -> list[int]:
    numbers = _NUMBERS.decode(text) if text else None
    return numbers if numbers is not None and len(numbers) == 3 else [-1, -1, -1]
