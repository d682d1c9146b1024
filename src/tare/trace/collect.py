"""Events into columns: a table a category, each grown by arrays of whole pieces of the trace."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from tare.trace import events as kineto
from tare.trace.columns import SEPARATOR, Codes, Columns, Interned, floats, integers
from tare.trace.events import ANNOTATIONS, DEVICE_ANNOTATIONS, FRAMES, MEMORY, Event, Instant, Span
from tare.trace.intervals import Integers
from tare.trace.tables import COPY, KERNEL, MEMSET

# Beyond this a number of microseconds does not fit an int64 of nanoseconds.
LATEST = 4e15
SPAN = ("start", "end", "name")
KINDS = (
    dict.fromkeys(kineto.KERNELS, KERNEL)
    | dict.fromkeys(kineto.COPIES, COPY)
    | dict.fromkeys(kineto.MEMSETS, MEMSET)
)
# Starts, ends and names.
Times = tuple[Integers, Integers, Integers | int]
Floats = npt.NDArray[np.float64]
Taker = Callable[[list[Span], Times], None]
E = TypeVar("E", Span, Instant)
_join = SEPARATOR.join


class Collector:
    """Takes events piece by piece; the tables' raw columns are its attributes."""

    def __init__(self) -> None:
        self.names, self.texts, self.threads = Codes(), Codes(), Codes()
        self._inputs, self._shapes = Interned(4, self._text_codes), Interned(6, _two_triples)
        self.operators = Columns(
            *SPAN, "thread", "sequence", "forward_thread", "dims", "types", "concrete", "strides"
        )
        self.annotations = Columns(*SPAN, "thread", "device")
        self.frames = Columns(*SPAN, "thread")
        self.calls = Columns(*SPAN, "thread", "correlation")
        self.device = Columns(
            *SPAN, "kind", "device", "stream", "correlation", "bytes", "registers", "shared",
            "gx", "gy", "gz", "bx", "by", "bz",
        )  # fmt: skip
        self.memory = Columns(*SPAN, "thread", "bytes", "address", "cuda", "device", "allocated", "reserved")
        self.skipped = 0
        self._takers: dict[Taker, Iterable[str]] = {
            self._operators: kineto.OPERATORS,
            self._calls: kineto.CALLS,
            self._work: KINDS,
            self._annotations: (ANNOTATIONS, DEVICE_ANNOTATIONS),
            self._frames: (FRAMES,),
        }

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
        names = self.names
        for taker, group in groups.items():
            if group:
                spans, start, length = self._timed(group, floats([event.dur or 0.0 for event in group]))
                codes = integers([names[event.name] for event in spans])
                taker(spans, (start, start + length, codes))
        if allocations:
            instants, start, length = self._timed(allocations, np.zeros(len(allocations)))
            self._allocations(instants, (start, start, names[MEMORY]))

    def _timed(self, events: list[E], dur: Floats) -> tuple[list[E], Integers, Integers]:
        """The events that have usable times, with those."""
        ts = _floats([event.ts for event in events])
        good = (np.abs(ts) < LATEST) & (dur >= 0) & (dur < LATEST)
        if not good.all():
            self.skipped += int((~good).sum())
            events = [event for event, kept in zip(events, good, strict=True) if kept]
            ts, dur = ts[good], dur[good]
        return events, np.rint(ts * 1000).astype(np.int64), np.rint(dur * 1000).astype(np.int64)

    def _threads(self, events: Sequence[Span | Instant]) -> list[int]:
        places = zip([event.pid for event in events], [event.tid for event in events], strict=True)
        return list(map(self.threads.__getitem__, places))

    def _text_codes(self, texts: list[bytes]) -> list[int]:
        """Numbers for the JSON of an operator's inputs."""
        return [self.texts[text] if text else -1 for text in texts]

    def _operators(self, events: list[Span], times: Times) -> None:
        args = [event.args for event in events]
        self.operators.add(
            len(events),
            *times,
            self._threads(events),
            [a.sequence for a in args],
            [a.forward_thread for a in args],
            *self._inputs.columns([_join((a.dims or a.dims_old, a.types, a.concrete, a.strides)) for a in args]),
        )

    def _annotations(self, events: list[Span], times: Times) -> None:
        on_device = [int(event.cat == DEVICE_ANNOTATIONS) for event in events]
        self.annotations.add(len(events), *times, self._threads(events), on_device)

    def _frames(self, events: list[Span], times: Times) -> None:
        self.frames.add(len(events), *times, self._threads(events))

    def _calls(self, events: list[Span], times: Times) -> None:
        self.calls.add(len(events), *times, self._threads(events), [e.args.correlation for e in events])

    def _work(self, events: list[Span], times: Times) -> None:
        args = [event.args for event in events]
        self.device.add(
            len(events),
            *times,
            [KINDS[event.cat] for event in events],
            [a.device for a in args],
            _tags([a.stream for a in args]),
            [a.correlation for a in args],
            [a.bytes for a in args],
            [a.registers for a in args],
            [a.shared for a in args],
            *self._shapes.columns([_join((a.grid, a.block)) for a in args]),
        )

    def _allocations(self, events: list[Instant], times: Times) -> None:
        args = [event.args for event in events]
        self.memory.add(
            len(events),
            *times,
            self._threads(events),
            [a.bytes for a in args],
            _tags([a.address for a in args]),
            # DeviceType of c10: 0 is the host; whatever else is a device.
            [int(a.device_type != 0) for a in args],
            [a.device_number for a in args],
            [a.allocated for a in args],
            [a.reserved for a in args],
        )


def _floats(values: list[Any]) -> Floats:
    """Numbers as they are, texts as the numbers they spell, and NaN for all else."""
    try:
        return floats(values)
    except (TypeError, ValueError):
        return np.array([_number(value) for value in values])


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _tags(values: list[int | str]) -> Integers:
    """Streams or addresses, which may lie in the upper half of 64 bits."""
    try:
        return integers(values)
    except (OverflowError, ValueError):
        return np.array([_tag(value) for value in values], dtype=np.int64)


def _tag(value: int | str) -> int:
    if isinstance(value, str):
        return int(value) if value.lstrip("-").isdecimal() and len(value) < 18 else -1
    return value - 2**64 if 2**63 <= value < 2**64 else value


def _two_triples(texts: list[bytes]) -> list[int]:
    """A grid and a block."""
    grid, block = texts
    return [*_triple(grid), *_triple(block)]


def _triple(text: bytes) -> list[int]:
    numbers = msgspec.json.decode(text, type=list[int] | None) if text else None
    return numbers if numbers is not None and len(numbers) == 3 else [-1, -1, -1]
