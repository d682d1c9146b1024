"""Events into columns: a table a category, each grown by arrays of whole pieces of the trace."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from tare.trace import events as kineto
from tare.trace.columns import Codes, Columns, Interned
from tare.trace.events import MEMORY, Event, Instant, Span
from tare.trace.intervals import Integers
from tare.trace.tables import COPY, KERNEL, MEMSET

# Beyond this a number of microseconds does not fit an int64 of nanoseconds.
LATEST = 4e15
SPAN = ("start", "end", "name")
# Starts, ends and names.
Times = tuple[Integers, Integers, Integers | int]
Floats = npt.NDArray[np.float64]
Taker = Callable[[list[Span], Times], None]
E = TypeVar("E", Span, Instant)


class Collector:
    """Takes events piece by piece; the tables' raw columns are its attributes."""

    def __init__(self) -> None:
        self.names, self.texts, self.threads = Codes(), Codes(), Codes()
        self._inputs, self._shapes = Interned(4, self._text_codes), Interned(6, _two_triples)
        self.operators = Columns(
            *SPAN, "thread", "external", "sequence", "forward_thread", "dims", "types", "concrete", "strides"
        )
        self.annotations, self.overhead = (Columns(*SPAN, "thread", "device") for _ in range(2))
        self.frames = Columns(*SPAN, "thread", "identifier", "module")
        self.calls = Columns(*SPAN, "thread", "driver", "correlation", "external")
        self.device = Columns(
            *SPAN, "kind", "device", "stream", "correlation", "external", "bytes", "registers", "shared",
            "graph", "node", "gx", "gy", "gz", "bx", "by", "bz",
        )  # fmt: skip
        self.memory = Columns(*SPAN, "thread", "bytes", "address", "cuda", "device", "allocated", "reserved")
        self.waits = Columns(*SPAN, "device", "stream", "correlation")
        self.skipped = 0
        takers: dict[Taker, tuple[str, ...]] = {
            self._operators: kineto.OPERATORS,
            self._calls: kineto.CALLS,
            self._driver_calls: kineto.DRIVER_CALLS,
            self._kernels: kineto.KERNELS,
            self._copies: kineto.COPIES,
            self._memsets: kineto.MEMSETS,
            self._annotations: ("user_annotation",),
            self._device_annotations: ("gpu_user_annotation",),
            self._overhead: ("overhead", "Overhead"),
            self._frames: ("python_function",),
            self._waits: ("cuda_sync",),
        }
        self._takers = {category: taker for taker, categories in takers.items() for category in categories}

    def take(self, events: Sequence[Event]) -> None:
        groups: dict[str, list[Span]] = {category: [] for category in self._takers}
        allocations: list[Instant] = []
        find = groups.get
        for event in events:
            if isinstance(event, Span):
                group = find(event.cat)
                if group is not None:
                    group.append(event)
            elif isinstance(event, Instant) and event.name == MEMORY:
                allocations.append(event)
        names = self.names
        for category, group in groups.items():
            if group:
                spans, start, length = self._timed(group, np.array([event.dur or 0.0 for event in group]))
                codes = np.array([names[event.name] for event in spans])
                self._takers[category](spans, (start, start + length, codes))
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
        threads = self.threads
        return [threads[event.pid, event.tid] for event in events]

    def _text_codes(self, texts: list[bytes]) -> list[int]:
        """Numbers for the JSON of an operator's inputs. The last text is what old traces call the first."""
        first, *others, old = texts
        return [self.texts[text] if text else -1 for text in (first or old, *others)]

    def _operators(self, events: list[Span], times: Times) -> None:
        args = [event.args for event in events]
        self.operators.add(
            len(events),
            *times,
            self._threads(events),
            [a.external for a in args],
            [a.sequence for a in args],
            [a.forward_thread for a in args],
            *self._inputs.columns((a.dims, a.types, a.concrete, a.strides, a.dims_old) for a in args),
        )

    def _annotations(self, events: list[Span], times: Times) -> None:
        self.annotations.add(len(events), *times, self._threads(events), 0)

    def _device_annotations(self, events: list[Span], times: Times) -> None:
        self.annotations.add(len(events), *times, self._threads(events), 1)

    def _overhead(self, events: list[Span], times: Times) -> None:
        self.overhead.add(len(events), *times, self._threads(events), 0)

    def _frames(self, events: list[Span], times: Times) -> None:
        identifiers = [_or_none(event.args.identifier) for event in events]
        modules = [_or_none(event.args.module) for event in events]
        self.frames.add(len(events), *times, self._threads(events), identifiers, modules)

    def _calls(self, events: list[Span], times: Times, driver: int = 0) -> None:
        joined = ([e.args.correlation for e in events], [e.args.external for e in events])
        self.calls.add(len(events), *times, self._threads(events), driver, *joined)

    def _driver_calls(self, events: list[Span], times: Times) -> None:
        self._calls(events, times, driver=1)

    def _kernels(self, events: list[Span], times: Times) -> None:
        self._work(events, times, KERNEL)

    def _copies(self, events: list[Span], times: Times) -> None:
        self._work(events, times, COPY)

    def _memsets(self, events: list[Span], times: Times) -> None:
        self._work(events, times, MEMSET)

    def _work(self, events: list[Span], times: Times, kind: int) -> None:
        args = [event.args for event in events]
        self.device.add(
            len(events),
            *times,
            kind,
            [a.device for a in args],
            _tags([a.stream for a in args]),
            [a.correlation for a in args],
            [a.external for a in args],
            [a.bytes for a in args],
            [a.registers for a in args],
            [a.shared for a in args],
            [a.graph for a in args],
            [a.node for a in args],
            *self._shapes.columns((a.grid, a.block) for a in args),
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
            np.not_equal([a.device_type for a in args], 0),
            [a.device_number for a in args],
            [a.allocated for a in args],
            [a.reserved for a in args],
        )

    def _waits(self, events: list[Span], times: Times) -> None:
        args = [event.args for event in events]
        columns = ([a.device for a in args], _tags([a.stream for a in args]), [a.correlation for a in args])
        self.waits.add(len(events), *times, *columns)


def _floats(values: list[Any]) -> Floats:
    """Numbers as they are, texts as the numbers they spell, and NaN for all else."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array([_number(value) for value in values])


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _or_none(number: int | None) -> int:
    return -1 if number is None else number


def _tags(values: list[int | str]) -> Integers:
    """Streams or addresses, which may lie in the upper half of 64 bits."""
    try:
        return np.array(values, dtype=np.int64)
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
