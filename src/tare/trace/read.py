"""Reads a torch.profiler trace (.json, .json.gz; from tare or any other tool) into tables."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tare.errors import BadInput, brief
from tare.system.text import printable
from tare.trace.columns import Collector, RowCodes
from tare.trace.events import Event
from tare.trace.intervals import Integers, Mask
from tare.trace.names import STEP, call_kind, copy_direction, copy_memory, step_number
from tare.trace.nesting import innermost, nest, order
from tare.trace.stream import EventStream
from tare.trace.tables import (
    COPY,
    Annotations,
    DeviceSpans,
    FrameSpans,
    MemoryEvents,
    OperatorSpans,
    RuntimeCalls,
    Spans,
    StepSpans,
    Trace,
)

Table = dict[str, Integers]


def read(path: Path) -> Trace:
    """The trace in a file. BadInput if the file is no trace, is truncated or exceeds a limit."""
    stream = EventStream(path)
    collector = Collector()
    try:
        with _no_garbage_collection():
            for events in stream:
                collector.take(events)
        return _build(collector, str(path), stream.metadata, stream.events)
    except (msgspec.DecodeError, OverflowError, TypeError) as error:
        raise BadInput(f"the trace {path} has an event that cannot be read: {brief(error)}") from None


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Events form no cycles. The search for cycles among millions of them takes a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def parse(events: list[Event], source: str = "events", metadata: Mapping[str, Any] | None = None) -> Trace:
    """A trace from events in memory."""
    collector = Collector()
    collector.take(events)
    return _build(collector, source, metadata or {}, len(events))


def _build(collector: Collector, source: str, metadata: Mapping[str, Any], events: int) -> Trace:
    names = [printable(str(name)) for name in collector.names]
    operators = _operators(_sorted(collector.operators.finish()), collector.inputs)
    frames = FrameSpans(**_nested(_sorted(collector.frames.finish())))
    calls = _calls(_sorted(collector.calls.finish()), names, operators, frames)
    device = _device(_sorted(collector.device.finish()), collector.shapes, names, calls)
    annotations = Annotations(**_sorted(collector.annotations.finish()))
    return Trace(
        source=source,
        metadata=metadata,
        names=names,
        texts=list(collector.texts),
        threads=[f"{process}/{thread}" for process, thread in collector.threads],
        steps=_steps(annotations, operators, names, (operators, frames, calls, device)),
        operators=operators,
        annotations=annotations,
        frames=frames,
        calls=calls,
        device=device,
        memory=MemoryEvents(**_sorted(collector.memory.finish())),
        events=events,
        skipped=collector.skipped,
        begun=collector.begun,
    )


def _sorted(table: Table) -> Table:
    rows = order(table["start"], table["end"])
    # Each column is removed when it is sorted, so that memory never holds two copies of the table.
    return {name: table.pop(name).take(rows) for name in list(table)}


def _nested(table: Table) -> Table:
    """Adds parents and depths by time: the profiler's parent ids are missing where it started within a frame."""
    parent, depth = nest(table["thread"], table["start"], table["end"])
    return table | {"parent": parent, "depth": depth}


def _operators(table: Table, inputs: RowCodes) -> OperatorSpans:
    dims, types, concrete, strides = inputs.columns(table.pop("inputs"))
    return OperatorSpans(**_nested(table), dims=dims, types=types, concrete=concrete, strides=strides)


def _calls(table: Table, names: list[str], operators: OperatorSpans, frames: FrameSpans) -> RuntimeCalls:
    at = table["thread"], table["start"]
    operator, frame = (innermost(t.thread, t.start, t.end, t.parent, *at) for t in (operators, frames))
    return RuntimeCalls(**table, kind=_by_name(table["name"], names, call_kind), operator=operator, frame=frame)


def _by_name(codes: Integers, names: list[str], meaning: Callable[[str], int]) -> Integers:
    """What the name of each row means."""
    meanings = np.full(len(names), -1, dtype=np.int64)
    used = np.flatnonzero(np.bincount(codes))
    meanings[used] = [meaning(names[code]) for code in used.tolist()]
    return meanings.take(codes)


def _device(table: Table, shapes: RowCodes, names: list[str], calls: RuntimeCalls) -> DeviceSpans:
    shape = shapes.columns(table.pop("shapes"))
    direction, memory = np.full((2, len(table["start"])), -1, dtype=np.int64)
    copies = np.flatnonzero(table["kind"] == COPY)
    direction[copies] = _by_name(table["name"][copies], names, copy_direction)
    memory[copies] = _by_name(table["name"][copies], names, copy_memory)
    call = _launching_call(table["correlation"], calls)
    return DeviceSpans(**table, call=call, grid=shape[:3].T, block=shape[3:].T, direction=direction, memory=memory)


def _launching_call(correlation: Integers, calls: RuntimeCalls) -> Integers:
    """The row of the call with the same correlation id. The first of several such calls counts."""
    rows = np.flatnonzero(calls.correlation > 0)
    if len(rows) == 0:
        return np.full(len(correlation), -1, dtype=np.int64)
    ids = calls.correlation[rows]
    by_id = np.argsort(ids, kind="stable")
    rows, ids = rows[by_id], ids[by_id]
    at = np.minimum(np.searchsorted(ids, correlation), len(ids) - 1)
    return np.where((ids[at] == correlation) & (correlation > 0), rows[at], -1)


def _steps(
    annotations: Annotations, operators: OperatorSpans, names: list[str], tables: tuple[Spans, ...]
) -> StepSpans:
    numbers = {code: number for code, name in enumerate(names) if (number := step_number(name)) is not None}
    # tare's annotations contain the step alone; the profiler's also contain its own work between two steps.
    numbers = {code: number for code, number in numbers.items() if names[code].startswith(STEP)} or numbers
    for table, on_host in ((annotations, annotations.device == 0), (operators, True)):
        marked = np.isin(table.name, list(numbers)) & on_host
        if marked.any():
            return _marked_steps(table, marked, numbers)
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
