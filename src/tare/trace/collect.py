"""Events into columns: a table a category, each grown by arrays of whole pieces of the trace."""

import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from tare.trace import events as kineto
from tare.trace.events import MEMORY, Event
from tare.trace.intervals import Integers
from tare.trace.naming import call_kind, copy_direction, copy_memory
from tare.trace.tables import COPY, KERNEL, MEMSET

# Beyond this a number of microseconds does not fit an int64 of nanoseconds.
LATEST = 4e15
SPAN = ("start", "end", "name")
# No JSON has this byte.
SEPARATOR = b"\0"


class Columns:
    """A table that grows by pieces."""

    def __init__(self, *names: str) -> None:
        self.names = (*SPAN, *names)
        self._pieces: list[list[Integers]] = []

    def add(self, *columns: Iterable[int] | Integers) -> None:
        self._pieces.append([np.asarray(column, dtype=np.int64) for column in columns])

    def finish(self) -> dict[str, Integers]:
        """The columns whole; the pieces are given up one by one, so that memory never holds both."""
        found = {}
        for i, name in enumerate(self.names):
            found[name] = np.concatenate([np.empty(0, dtype=np.int64), *(piece[i] for piece in self._pieces)])
            for piece in self._pieces:
                piece[i] = np.empty(0, dtype=np.int64)
        return found


class Codes(dict[Any, int]):
    """Equal values get one number."""

    def __missing__(self, value: Any) -> int:
        self[value] = code = len(self)
        return code


class Interned:
    """Equal groups of texts get equal rows of numbers, which are worked out once."""

    def __init__(self, numbers: Callable[[list[bytes]], list[int]]) -> None:
        self._numbers = numbers
        self._codes = Codes()
        self._rows: list[list[int]] = []

    def columns(self, groups: Iterable[tuple[msgspec.Raw, ...]]) -> Integers:
        """The numbers of each group, one array a column."""
        codes, join = self._codes, SEPARATOR.join
        found = [codes[join(group)] for group in groups]
        new = islice(codes, len(self._rows), None)
        self._rows += [self._numbers(key.split(SEPARATOR)) for key in new]
        return np.array(self._rows, dtype=np.int64).T[:, found]


class Collector:
    """Takes events piece by piece; the tables' raw columns are its attributes."""

    def __init__(self) -> None:
        self.names, self.texts, self.threads = Codes(), Codes(), Codes()
        self._inputs, self._shapes = Interned(self._text_codes), Interned(_two_triples)
        self.operators = Columns(
            "thread", "external", "sequence", "forward_thread", "dims", "types", "concrete", "strides"
        )
        self.annotations, self.overhead = Columns("thread", "device"), Columns("thread", "device")
        self.frames = Columns("thread", "identifier", "module")
        self.calls = Columns("thread", "kind", "driver", "correlation", "external")
        self.device = Columns(
            "kind", "device", "stream", "correlation", "external", "bytes", "direction", "memory",
            "registers", "shared", "graph", "node", "gx", "gy", "gz", "bx", "by", "bz",
        )  # fmt: skip
        self.memory = Columns("thread", "bytes", "address", "cuda", "device", "allocated", "reserved")
        self.waits = Columns("device", "stream", "correlation")
        self.skipped = 0
        takers: dict[Callable[[list[Event], Times], None], tuple[str, ...]] = {
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

    def take(self, events: list[Event]) -> None:
        groups: dict[str, list[Event]] = {category: [] for category in self._takers}
        allocations: list[Event] = []
        find = groups.get
        for event in events:
            if event.ph == "X":
                group = find(event.cat)
                if group is not None:
                    group.append(event)
            elif event.ph == "i" and event.name == MEMORY:
                allocations.append(event)
        for category, group in groups.items():
            self._give(group, self._takers[category])
        self._give(allocations, self._allocations)

    def _give(self, events: list[Event], taker: Callable[[list[Event], "Times"], None]) -> None:
        """Hands on the events that have usable times, with those."""
        if not events:
            return
        ts = _floats([event.ts for event in events])
        dur = np.array([event.dur or 0.0 for event in events])
        good = (np.abs(ts) < LATEST) & (dur >= 0) & (dur < LATEST)
        if not good.all():
            self.skipped += int((~good).sum())
            events = [event for event, kept in zip(events, good, strict=True) if kept]
            ts, dur = ts[good], dur[good]
        start = np.rint(ts * 1000).astype(np.int64)
        names = self.names
        taker(events, (start, start + np.rint(dur * 1000).astype(np.int64), [names[e.name] for e in events]))

    def _threads(self, events: list[Event]) -> list[int]:
        threads = self.threads
        return [threads[event.pid, event.tid] for event in events]

    def _text_codes(self, texts: list[bytes]) -> list[int]:
        """Numbers for the JSON of an operator's inputs. The last text is what old traces call the first."""
        *known, old = texts
        known[0] = known[0] or old
        return [self.texts[text] if text else -1 for text in known]

    def _operators(self, events: list[Event], times: "Times") -> None:
        args = [event.args for event in events]
        self.operators.add(
            *times,
            self._threads(events),
            [a.external for a in args],
            [a.sequence for a in args],
            [a.forward_thread for a in args],
            *self._inputs.columns((a.dims, a.types, a.concrete, a.strides, a.dims_old) for a in args),
        )

    def _annotations(self, events: list[Event], times: "Times") -> None:
        self.annotations.add(*times, self._threads(events), [0] * len(events))

    def _device_annotations(self, events: list[Event], times: "Times") -> None:
        self.annotations.add(*times, self._threads(events), [1] * len(events))

    def _overhead(self, events: list[Event], times: "Times") -> None:
        self.overhead.add(*times, self._threads(events), [0] * len(events))

    def _frames(self, events: list[Event], times: "Times") -> None:
        numbers = ([_or_none(getattr(e.args, name)) for e in events] for name in ("identifier", "module"))
        self.frames.add(*times, self._threads(events), *numbers)

    def _calls(self, events: list[Event], times: "Times", driver: int = 0) -> None:
        kinds = [call_kind(str(event.name)) for event in events]
        joined = ([e.args.correlation for e in events], [e.args.external for e in events])
        self.calls.add(*times, self._threads(events), kinds, [driver] * len(events), *joined)

    def _driver_calls(self, events: list[Event], times: "Times") -> None:
        self._calls(events, times, driver=1)

    def _kernels(self, events: list[Event], times: "Times") -> None:
        self._work(events, times, KERNEL)

    def _copies(self, events: list[Event], times: "Times") -> None:
        self._work(events, times, COPY)

    def _memsets(self, events: list[Event], times: "Times") -> None:
        self._work(events, times, MEMSET)

    def _work(self, events: list[Event], times: "Times", kind: int) -> None:
        args = [event.args for event in events]
        texts = [str(event.name) if kind == COPY else "" for event in events]
        self.device.add(
            *times,
            [kind] * len(args),
            [a.device for a in args],
            _tags([a.stream for a in args]),
            [a.correlation for a in args],
            [a.external for a in args],
            [a.bytes for a in args],
            [copy_direction(text) for text in texts],
            [copy_memory(text) for text in texts],
            [a.registers for a in args],
            [a.shared for a in args],
            [a.graph for a in args],
            [a.node for a in args],
            *self._shapes.columns((a.grid, a.block) for a in args),
        )

    def _allocations(self, events: list[Event], times: "Times") -> None:
        args = [event.args for event in events]
        self.memory.add(
            *times,
            self._threads(events),
            [a.allocation for a in args],
            _tags([a.address for a in args]),
            # DeviceType of c10: 0 is the host; whatever else is a device.
            [int(a.device_type != 0) for a in args],
            [a.device_number for a in args],
            [a.allocated for a in args],
            [a.reserved for a in args],
        )

    def _waits(self, events: list[Event], times: "Times") -> None:
        args = [event.args for event in events]
        columns = ([a.device for a in args], _tags([a.stream for a in args]), [a.correlation for a in args])
        self.waits.add(*times, *columns)


# Starts, ends and names.
Times = tuple[Integers, Integers, list[int]]


def _floats(values: list[Any]) -> Any:
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
    try:
        return np.array(values, dtype=np.int64)
    except (OverflowError, ValueError):
        return np.array([_tag(value) for value in values], dtype=np.int64)


def _tag(value: int | str) -> int:
    """A stream or an address, which may lie in the upper half of 64 bits."""
    if isinstance(value, str):
        return int(value) if value.lstrip("-").isdecimal() and len(value) < 18 else -1
    return value - 2**64 if 2**63 <= value < 2**64 else value


def _two_triples(texts: list[bytes]) -> list[int]:
    """A grid and a block."""
    return [number for text in texts for number in _triple(text)]


def _triple(text: bytes) -> list[int]:
    numbers = msgspec.json.decode(text, type=list[int] | None) if text else None
    return numbers if numbers is not None and len(numbers) == 3 else [-1, -1, -1]
