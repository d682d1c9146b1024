"""Reads a trace into tables: of torch.profiler (.json, .json.gz; from tare or any other tool), or of another
profiler, whose files tare.trace.formats turns into the same events.

The events come in lists, chunk by chunk, and grow one table of numbers for each kind of event. `struct`
converts a chunk: numpy's conversion of lists would cost more than everything else that is done to the chunk.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from tare.errors import BadInput, brief
from tare.system.text import printable
from tare.trace.events import ABSENT, ARGUMENTS, CATEGORIES, LATEST, MEMORY, NO_ARGS, Event
from tare.trace.find_steps import find_steps
from tare.trace.flows import Flows, correlate
from tare.trace.formats import TraceFormat, open_events
from tare.trace.formats.chrome import ChromeTrace
from tare.trace.frame_steps import find_frame_steps
from tare.trace.host_collectives import add_host_collectives, with_rows
from tare.trace.intervals import Integers, Mask, contains, make
from tare.trace.lines import take_marks, with_lines
from tare.trace.merged import split_processes
from tare.trace.messages import read_message
from tare.trace.names import (
    LOADER,
    MODULE,
    STEP,
    USER_LINE,
    begins_capture,
    call_kind,
    copy_direction,
    copy_memory,
    ends_capture,
    frame_kind,
    step_number,
)
from tare.trace.spans import NestedSpans, Spans, nested, order
from tare.trace.stream import MOST_EVENTS, EventStream
from tare.trace.tables import (
    COPY,
    OTHER,
    WORKING,
    Annotations,
    DeviceSpans,
    FrameSpans,
    MemoryEvents,
    OperatorInputs,
    OperatorSpans,
    RuntimeCalls,
    StepSpans,
    Trace,
    lookup,
)

# More spans than this are open at once in no trace.
MOST_OPEN = 100_000
# Between JSON texts, which never contain this byte.
SEPARATOR = b"\0"
Table = dict[str, Integers]
Built = TypeVar("Built")
_join = SEPARATOR.join
NO_MESSAGE = b""
_NUMBERS = msgspec.json.Decoder(list[int] | None)


def read(path: Path) -> Trace:
    """The trace in a file. BadInput if the file is no trace, is truncated or exceeds a limit."""
    return _read(path, lambda collector, metadata: collector.build(str(path), metadata))


def read_ranks(path: Path) -> list[Trace]:
    """The traces of the ranks that were merged into a file; one trace where it is of one process."""
    return _read(path, lambda collector, metadata: collector.build_ranks(str(path), metadata))


def _read(path: Path, build: Callable[["Collector", Mapping[str, Any]], Built]) -> Built:
    source: EventStream | TraceFormat | ChromeTrace = open_events(path)
    try:
        collector = _collect(source)
        if isinstance(source, EventStream) and not collector.known:
            source = ChromeTrace(path)
            collector = _collect(source)
        if collector.needs_flows and isinstance(source, EventStream):
            for events in source:
                collector.flows.take(events)
        return build(collector, source.metadata)
    except OSError as error:
        raise BadInput(f"cannot read the trace {path}: {error.strerror or brief(error)}") from None
    except (msgspec.DecodeError, struct.error, OverflowError) as error:
        raise BadInput(f"the trace {path} has an event that cannot be read: {brief(error)}") from None


def _collect(source: EventStream | TraceFormat | ChromeTrace) -> "Collector":
    collector = Collector()
    for events in source:
        collector.take(events)
        if collector.events > MOST_EVENTS:
            raise BadInput(f"the trace {source.path} has more than {MOST_EVENTS:,} events")
    return collector


class Codes(dict[Any, int]):
    """Assigns consecutive numbers to distinct values."""

    def __missing__(self, value: Any) -> int:
        self[value] = code = len(self)
        return code

    def encode(self, values: Iterable[Any]) -> bytes:
        """The values' numbers, as a column."""
        return _pack("q", list(map(self.__getitem__, values)), int)


class Collector:
    """Takes events list by list, and builds the trace from the columns of all of them.

    Instead of an operator's inputs and a kernel's launch shape the columns hold codes of their JSON.
    """

    def __init__(self) -> None:
        self._names, self._threads, self._inputs = Codes(), Codes(), Codes()
        # The first code, 0, stands for no message, and for no launch shape.
        self._messages, self._shapes = Codes({NO_MESSAGE: 0}), Codes({SEPARATOR: 0})
        self._columns: dict[str, defaultdict[str, bytearray]] = {
            table: defaultdict(bytearray) for table in ARGUMENTS
        }
        for table in ARGUMENTS:
            self._add(table, [])
        self.events = self._skipped = self._unclosed = 0
        # Spans of which only the beginning has come yet, by thread.
        self._open: defaultdict[tuple[Any, Any], list[Event]] = defaultdict(list)
        self.flows = Flows()

    def take(self, events: Sequence[Event]) -> None:
        groups: dict[str, list[Event]] = {table: [] for table in ARGUMENTS}
        group_of = {category: groups[table] for category, (table, _) in CATEGORIES.items()}.get
        for event in events:
            phase = event.ph
            if phase == "X":
                group = group_of(event.cat)
                if group is not None:
                    group.append(event)
            elif phase == "i":
                if event.name == MEMORY:
                    groups["memory"].append(event)
            elif phase == "B":
                self._begin(event)
            elif phase == "E" and (begun := self._close(event)):
                group = group_of(begun.cat)
                if group is not None:
                    group.append(begun)
        self.events += len(events)
        for table, group in groups.items():
            if group:
                self._add(table, group)

    def _begin(self, event: Event) -> None:
        """Keeps the beginning of a span. Without ends they would fill the memory."""
        self._unclosed += 1
        if self._unclosed <= MOST_OPEN:
            self._open[event.pid, event.tid].append(event)

    def _close(self, end: Event) -> Event | None:
        """The span that ends here: the last one that its thread began."""
        begun = self._open.get((end.pid, end.tid))
        if not begun:
            return None
        self._unclosed -= 1
        event = begun.pop()
        event.dur = _float(end.ts) - _float(event.ts)
        return event

    def _add(self, table: str, events: list[Event]) -> None:
        args = [event.args or NO_ARGS for event in events]
        columns = {
            "start": _pack("d", [event.ts for event in events], _float),
            "length": _pack("d", [event.dur or 0.0 for event in events], _float),
            "name": self._names.encode([event.name for event in events]),
            **{name: _pack("q", list(map(attrgetter(name), args)), _wrap) for name in ARGUMENTS[table]},
        }
        if "external" in columns and max(map(attrgetter("external_old"), args), default=-1) >= 0:
            externals = [max(a.external, a.external_old) for a in args]
            columns["external"] = _pack("q", externals, _wrap)
        processes, threads = [event.pid for event in events], [event.tid for event in events]
        columns["thread"] = self._threads.encode(zip(processes, threads, strict=True))
        if table == "operators":
            texts = [
                _join((a.dims if a.dims is not ABSENT else a.dims_old, a.types, a.concrete, a.strides))
                for a in args
            ]
            columns["inputs"] = self._inputs.encode(texts)
        if table == "device":
            columns["shapes"] = self._shapes.encode([_join((a.grid, a.block)) for a in args])
        if table in ("device", "operators"):
            columns["message"] = self._messages.encode(
                [
                    _join((a.collective, a.element, a.sent, a.received, a.ranks, a.group, a.members))
                    if a.collective is not ABSENT or a.ranks is not ABSENT
                    else NO_MESSAGE
                    for a in args
                ]
            )
        if table in ("device", "annotations"):
            columns["kind"] = _pack("q", [CATEGORIES[event.cat][1] for event in events], int)
        for name, column in columns.items():
            self._columns[table][name] += column

    @property
    def known(self) -> bool:
        """Whether any event had a category of torch.profiler."""
        return any(self._columns[table]["name"] for table in ARGUMENTS)

    @property
    def needs_flows(self) -> bool:
        """Whether device work has neither a correlation nor an external id, while calls were recorded."""
        device = self._columns["device"]
        ids = [np.frombuffer(bytes(device[name]), dtype=np.int64) for name in ("correlation", "external")]
        return bool(self._columns["calls"]["name"]) and bool(((ids[0] <= 0) & (ids[1] <= 0)).any())

    def _joined(self) -> dict[str, Table]:
        """All tables, with device work joined to its calls by flow events where it has no ids."""
        tables = {table: self._finish(table) for table in ARGUMENTS}
        arrows = [
            (*_end_of_arrow(start, self._threads), *_end_of_arrow(finish, self._threads))
            for start, finish in self.flows.pairs()
        ]
        if arrows:
            correlate(tables["calls"], tables["device"], np.array(arrows, dtype=np.int64))
        return tables

    def build(self, source: str, metadata: Mapping[str, Any]) -> Trace:
        return self._trace(self._joined(), source, metadata)

    def build_ranks(self, source: str, metadata: Mapping[str, Any]) -> list[Trace]:
        """One trace for each process that launches work."""
        tables = self._joined()
        kinds = _by_name(tables["calls"]["name"], [str(name) for name in self._names], call_kind)
        ranks = split_processes(tables, [process for process, _ in self._threads], np.isin(kinds, WORKING))
        if len(ranks) < 2:
            return [self._trace(tables, source, metadata)]
        return [self._trace(own, f"{source} (process {process})", metadata) for process, own in ranks]

    def _trace(self, tables: dict[str, Table], source: str, metadata: Mapping[str, Any]) -> Trace:
        names = [printable(str(name)) for name in self._names]
        for table in ("device", "calls"):
            del tables[table]["position"]
        # By time, since the profiler's parent ids are missing where it started within a frame.
        _call_by_external_id(tables, names)
        add_host_collectives(tables, names)
        for table in ("operators", "calls", "device"):
            del tables[table]["external"]
        if (marks := take_marks(tables, names)) is not None:
            tables["frames"] = with_lines(
                tables["frames"], marks, names, lambda name: frame_kind(name) == USER_LINE
            )
        operators = OperatorSpans(**nested(tables["operators"]))
        frames = _frames(tables["frames"], names)
        calls = _calls(tables["calls"], names, operators, frames)
        device = _device(tables["device"], self._shapes, names, calls)
        calls = _without_captured(calls, device, names)
        marks = tables["annotations"]
        annotations = Annotations(device=marks.pop("kind"), **marks)
        memory = tables["memory"]
        return Trace(
            source=source,
            metadata=metadata,
            names=names,
            inputs=[OperatorInputs(*texts.split(SEPARATOR)) for texts in self._inputs],
            threads=[f"{process}/{thread}" for process, thread in self._threads],
            steps=_ended(_marked(annotations, operators, names), metadata)
            or find_steps(calls, device, operators)
            or find_frame_steps(frames, operators, names)
            or _whole((operators, frames, calls, device)),
            operators=operators,
            annotations=annotations,
            frames=frames,
            calls=calls,
            device=device,
            memory=MemoryEvents(
                bytes=memory.pop("size"),
                # c10::DeviceType: 0 is the CPU.
                cuda=(memory.pop("device_type") != 0).astype(np.int64),
                device=memory.pop("device_number"),
                **memory,
            ),
            events=self.events,
            skipped=self._skipped,
            begun=self._unclosed,
            messages=[read_message(text.split(SEPARATOR)) for text in self._messages],
        )

    def _finish(self, table: str) -> Table:
        """The columns of a table, sorted, with `start` and `end` in nanoseconds; rows without usable times
        go."""
        packed = self._columns.pop(table)
        # Each column is removed when it is converted, so that memory never holds two copies of the table.
        start, length = (np.frombuffer(packed.pop(name)) for name in ("start", "length"))
        usable = np.flatnonzero((np.abs(start) < LATEST) & (length >= 0) & (length < LATEST))
        self._skipped += len(start) - len(usable)
        begin = _nanoseconds(start[usable])
        end = begin + _nanoseconds(length[usable])
        rows = order(begin, end)
        columns = {"start": begin.take(rows), "end": end.take(rows)}
        rows = usable.take(rows)
        # Files that were merged one after the other are told apart by the order of their events.
        columns |= {"position": rows} if table in ("device", "calls") else {}
        return columns | {
            name: np.frombuffer(packed.pop(name), dtype=np.int64).take(rows) for name in list(packed)
        }


def _pack(format: str, values: list[Any], repair: Callable[[Any], Any]) -> bytes:
    """The values as a column; `repair` converts each of them if one does not fit the format."""
    try:
        return struct.pack(f"{len(values)}{format}", *values)
    except struct.error:
        return struct.pack(f"{len(values)}{format}", *map(repair, values))


def _wrap(value: int | str) -> int:
    """A stream or an address, which may be a text and may lie in the upper half of 64 bits."""
    if isinstance(value, str):
        return int(value) if value.removeprefix("-").isdecimal() and len(value) < 18 else -1
    return value - 2**64 if 2**63 <= value < 2**64 else value


def _float(value: Any) -> float:
    """A number, a text as the number that it spells, and NaN for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _nanoseconds(microseconds: npt.NDArray[np.float64]) -> Integers:
    """Integral and fractional parts are converted apart: nanoseconds since 1970 as a float have steps of 256."""
    integral = np.floor(microseconds)
    return integral.astype(np.int64) * 1000 + np.rint((microseconds - integral) * 1000).astype(np.int64)


def _end_of_arrow(end: tuple[float, Any], threads: Codes) -> tuple[int, int]:
    """Its nanoseconds and its thread, -1 for one without other events."""
    moment, thread = end
    if not abs(moment) < LATEST:
        return 0, -1
    return int(_nanoseconds(np.array([moment], dtype=np.float64))[0]), threads.get(thread, -1)


def _frames(table: Table, names: list[str]) -> FrameSpans:
    kinds, rows = _by_name(table["name"], names, frame_kind), np.arange(len(table["name"]))
    columns = nested(table)
    spans = NestedSpans(**columns)
    line, module, loader = (
        spans.inherit(np.where(kinds == kind, rows, -1)) for kind in (USER_LINE, MODULE, LOADER)
    )
    return FrameSpans(**columns, line=line, module=module, loader=loader)


def _calls(table: Table, names: list[str], operators: OperatorSpans, frames: FrameSpans) -> RuntimeCalls:
    operator, frame = (around.innermost(table["thread"], table["start"]) for around in (operators, frames))
    return RuntimeCalls(**table, kind=_by_name(table["name"], names, call_kind), operator=operator, frame=frame)


def _call_by_external_id(tables: dict[str, Table], names: list[str]) -> None:
    """Gives device work without a call of its correlation id that of its external id: the call with the same, or
    else one in place of the operator with the same, where the profiler recorded no calls."""
    device, calls, operators = tables["device"], tables["calls"], tables["operators"]
    known = device["correlation"] > 0
    orphaned = np.flatnonzero(
        (device["external"] > 0) & ~(known & np.isin(device["correlation"], calls["correlation"]))
    )
    if not len(orphaned):
        return
    wanted = device["external"][orphaned]
    working = np.flatnonzero(np.isin(_by_name(calls["name"], names, call_kind), WORKING) & (calls["external"] > 0))
    call = lookup(calls["external"][working], working, wanted)
    device["correlation"] = device["correlation"].copy()
    device["correlation"][orphaned[call >= 0]] = calls["correlation"][call[call >= 0]]
    orphaned, wanted = orphaned[call < 0], wanted[call < 0]
    rows = np.flatnonzero(operators["external"] > 0)
    # The innermost of several operators with one id comes last.
    operator = lookup(operators["external"][rows[::-1]], rows[::-1], wanted)
    orphaned, operator = orphaned[operator >= 0], operator[operator >= 0]
    if not len(orphaned):
        return
    launching, number = np.unique(operator, return_inverse=True)
    free = int(calls["correlation"].max(initial=0)) + 1
    free = max(free, int(device["correlation"].max(initial=0)) + 1)
    device["correlation"][orphaned] = free + number.reshape(-1)
    names.append("LaunchKernel (not recorded)")
    # How long the calls took is not known. They came before their work, within their operators.
    begun = np.full(len(launching), np.iinfo(np.int64).max)
    np.minimum.at(begun, number.reshape(-1), device["start"][orphaned])
    latest = np.maximum(operators["end"][launching] - 1, operators["start"][launching])
    begun = np.clip(begun, operators["start"][launching], latest)
    made = {
        "start": begun,
        "end": begun,
        "thread": operators["thread"][launching],
        "name": np.full(len(launching), len(names) - 1),
        "correlation": free + np.arange(len(launching)),
    }
    tables["calls"] = with_rows(calls, made)


def _without_captured(calls: RuntimeCalls, device: DeviceSpans, names: list[str]) -> RuntimeCalls:
    """The calls, with those that a stream captures into a graph instead of launching anything as OTHER."""
    begins, ends = (
        np.flatnonzero(_by_name(calls.name, names, meaning)) for meaning in (begins_capture, ends_capture)
    )
    if not len(begins):
        return calls
    # Without an end the recording ended first. Captures may have launches of other threads: autograd's.
    after = np.searchsorted(calls.start[ends], calls.start[begins])
    finish = np.append(calls.end[ends], np.iinfo(np.int64).max)[after]
    captured = np.isin(calls.kind, WORKING) & contains(make(calls.start[begins], finish), calls.start)
    captured[device.call[device.call >= 0]] = False
    return replace(calls, kind=np.where(captured, OTHER, calls.kind))


def _by_name(codes: Integers, names: list[str], meaning: Callable[[str], int]) -> Integers:
    """What the name of each row means."""
    meanings = np.full(len(names), -1, dtype=np.int64)
    used = np.flatnonzero(np.bincount(codes))
    meanings[used] = [meaning(names[code]) for code in used.tolist()]
    return meanings.take(codes)


def _device(table: Table, shapes: Codes, names: list[str], calls: RuntimeCalls) -> DeviceSpans:
    numbers = [_triple(text) for texts in shapes for text in texts.split(SEPARATOR)]
    # The profiler's names for device and stream, which the arguments tell too.
    del table["thread"]
    grid, block = np.array(numbers, dtype=np.int64).reshape(-1, 2, 3)[table.pop("shapes")].swapaxes(0, 1)
    direction, memory = np.full((2, len(table["start"])), -1, dtype=np.int64)
    copies = np.flatnonzero(table["kind"] == COPY)
    direction[copies] = _by_name(table["name"][copies], names, copy_direction)
    memory[copies] = _by_name(table["name"][copies], names, copy_memory)
    launches = np.flatnonzero(calls.correlation > 0)
    call = lookup(calls.correlation[launches], launches, table["correlation"])
    return DeviceSpans(**table, call=call, grid=grid, block=block, direction=direction, memory=memory)


def _triple(text: bytes) -> list[int]:
    """A kernel's grid or block."""
    numbers = _NUMBERS.decode(text) if text else None
    return numbers if numbers is not None and len(numbers) == 3 else [-1, -1, -1]


def _marked(annotations: Annotations, operators: OperatorSpans, names: list[str]) -> StepSpans | None:
    numbers = {code: number for code, name in enumerate(names) if (number := step_number(name)) is not None}
    # tare's annotations contain the step alone; the profiler's also contain its own work between two steps.
    numbers = {code: number for code, number in numbers.items() if names[code].startswith(STEP)} or numbers
    for table, on_host in ((annotations, annotations.device == 0), (operators, True)):
        # A step without a length holds nothing that could be explained.
        marked = np.isin(table.name, list(numbers)) & on_host & (table.end > table.start)
        if marked.any():
            return _marked_steps(table, marked, numbers)
    return None


def _ended(steps: StepSpans | None, metadata: Mapping[str, Any]) -> StepSpans | None:
    """Without the step within which a script ended that was recorded live (tare.measure.live_recorder)."""
    live = metadata.get("tare_live")
    whole = live.get("steps") if isinstance(live, dict) else None
    if steps is None or not isinstance(whole, int) or not 0 < whole < len(steps):
        return steps
    return steps.take(np.arange(len(steps)) < whole)


def _whole(tables: tuple[Spans, ...]) -> StepSpans:
    """The whole trace as one step."""
    filled = [table for table in tables if len(table)]
    if not filled:
        return StepSpans(*[np.empty(0, dtype=np.int64)] * 6)
    start, end = min(int(t.start.min()) for t in filled), max(int(t.end.max()) for t in filled)
    return StepSpans(*(np.array([value], dtype=np.int64) for value in (start, end, -1, -1, -1, 1)))


def _marked_steps(table: Annotations | OperatorSpans, marked: Mask, numbers: dict[int, int]) -> StepSpans:
    # Several ranks merged into one file: the steps of one thread only, since those of others are the same steps.
    marked = marked & (table.thread == int(np.bincount(table.thread[marked]).argmax()))
    name = table.name[marked]
    number = np.array([numbers[int(code)] for code in name], dtype=np.int64)
    return StepSpans(
        table.start[marked], table.end[marked], name, number, table.thread[marked], np.ones_like(name)
    )
