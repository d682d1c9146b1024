"""A trace of torch.profiler (.json, .json.gz; ours or anyone's) into its tables. Nothing of it is executed."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tare.errors import BadInput, brief
from tare.system.text import printable
from tare.trace.chunks import Chunks
from tare.trace.collect import Collector
from tare.trace.columns import Interned
from tare.trace.events import Event
from tare.trace.intervals import Integers
from tare.trace.naming import STEP, call_kind, copy_direction, copy_memory, step_number
from tare.trace.nesting import innermost, nest, order
from tare.trace.tables import (
    COPY,
    Annotations,
    Calls,
    Device,
    Frames,
    Memory,
    Operators,
    Spans,
    Steps,
    Trace,
)

Columns = dict[str, Integers]


def read(path: Path) -> Trace:
    """The trace in a file; BadInput in one line if it is none, or truncated, or beyond all bounds."""
    chunks = Chunks(path)
    collector = Collector()
    try:
        with _uncollected():
            for events in chunks:
                collector.take(events)
        return build(collector, str(path), chunks.metadata, chunks.events)
    except (msgspec.DecodeError, OverflowError, TypeError) as error:
        raise BadInput(f"the trace {path} has an event that cannot be read: {brief(error)}") from None


@contextmanager
def _uncollected() -> Iterator[None]:
    """Millions of short-lived events hold no cycles: looking for some takes a tenth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def parse(events: list[Event], source: str = "events", metadata: Mapping[str, Any] | None = None) -> Trace:
    """The same from events already in memory."""
    collector = Collector()
    collector.take(events)
    return build(collector, source, metadata or {}, len(events))


def build(collector: Collector, source: str, metadata: Mapping[str, Any], events: int) -> Trace:
    names = [printable(str(name)) for name in collector.names]
    operators = _operators(_sorted(collector.operators.finish()), collector.inputs)
    frames = _frames(_sorted(collector.frames.finish()))
    calls = _calls(_sorted(collector.calls.finish()), names, operators, frames)
    device = _device(_sorted(collector.device.finish()), collector.shapes, names, calls)
    annotations = Annotations(**_sorted(collector.annotations.finish()))
    trace_tables = (operators, frames, calls, device)
    return Trace(
        source=source,
        metadata=metadata,
        names=names,
        texts=list(collector.texts),
        threads=[f"{process}/{thread}" for process, thread in collector.threads],
        steps=_steps(annotations, operators, names, trace_tables),
        operators=operators,
        annotations=annotations,
        frames=frames,
        calls=calls,
        device=device,
        memory=Memory(**_sorted(collector.memory.finish())),
        events=events,
        skipped=collector.skipped,
        begun=collector.begun,
    )


def _sorted(columns: Columns) -> Columns:
    rows = order(columns["start"], columns["end"])
    # Each is given up when it is sorted, so that memory does not hold all of them twice.
    return {name: columns.pop(name).take(rows) for name in list(columns)}


def _operators(columns: Columns, inputs: Interned) -> Operators:
    parent, depth = nest(columns["thread"], columns["start"], columns["end"])
    dims, types, concrete, strides = inputs.columns(columns.pop("inputs"))
    return Operators(
        **columns, parent=parent, depth=depth, dims=dims, types=types, concrete=concrete, strides=strides
    )


def _frames(columns: Columns) -> Frames:
    """Nested by time: a frame's own word on its caller is missing where the profiler started within it."""
    parent, depth = nest(columns["thread"], columns["start"], columns["end"])
    return Frames(**columns, parent=parent, depth=depth)


def _calls(columns: Columns, names: list[str], operators: Operators, frames: Frames) -> Calls:
    at = columns["thread"], columns["start"]
    around = [innermost(table.thread, table.start, table.end, table.parent, *at) for table in (operators, frames)]
    kind = _by_name(columns["name"], names, call_kind)
    return Calls(**columns, kind=kind, operator=around[0], frame=around[1])


def _by_name(codes: Integers, names: list[str], meaning: Callable[[str], int]) -> Integers:
    """What the name of each row means."""
    meanings = np.full(len(names), -1, dtype=np.int64)
    used = np.flatnonzero(np.bincount(codes))
    meanings[used] = [meaning(names[code]) for code in used.tolist()]
    return meanings.take(codes)


def _device(columns: Columns, shapes: Interned, names: list[str], calls: Calls) -> Device:
    shape = shapes.columns(columns.pop("shapes"))
    grid, block = shape[:3].T, shape[3:].T
    call = _join(columns["correlation"], calls)
    direction, memory = np.full((2, len(call)), -1, dtype=np.int64)
    copies = np.flatnonzero(columns["kind"] == COPY)
    # Of the copies only: names of kernels are long.
    direction[copies] = _by_name(columns["name"][copies], names, copy_direction)
    memory[copies] = _by_name(columns["name"][copies], names, copy_memory)
    return Device(**columns, call=call, grid=grid, block=block, direction=direction, memory=memory)


def _join(correlation: Integers, calls: Calls) -> Integers:
    """The call behind each piece of device work. The first of several calls with one id counts."""
    rows = np.flatnonzero(calls.correlation > 0)
    if len(rows) == 0:
        return np.full(len(correlation), -1, dtype=np.int64)
    ids = calls.correlation[rows]
    rank = np.argsort(ids, kind="stable")
    rows, ids = rows[rank], ids[rank]
    at = np.minimum(np.searchsorted(ids, correlation), len(ids) - 1)
    return np.where((ids[at] == correlation) & (correlation > 0), rows[at], -1)


def _steps(annotations: Annotations, operators: Operators, names: list[str], tables: tuple[Spans, ...]) -> Steps:
    codes = {code: number for code, name in enumerate(names) if (number := step_number(name)) is not None}
    # Ours hold the step alone; the profiler's hold its own work between two steps as well.
    ours = {code: number for code, number in codes.items() if names[code].startswith(STEP)}
    codes = ours or codes
    for table in (annotations, operators):
        known = np.isin(table.name, list(codes))
        if isinstance(table, Annotations):
            known &= table.device == 0
        if known.any():
            return _as_steps(table, known, codes)
    filled = [table for table in tables if len(table)]
    if not filled:
        nothing = np.empty(0, dtype=np.int64)
        return Steps(nothing, nothing, nothing, nothing, nothing, nothing)
    start, end = min(int(t.start.min()) for t in filled), max(int(t.end.max()) for t in filled)
    whole = [np.array([value], dtype=np.int64) for value in (start, end, -1, -1, -1, 1)]
    return Steps(*whole)


def _as_steps(table: Annotations | Operators, known: Any, codes: dict[int, int]) -> Steps:
    threads = table.thread[known]
    # Of several processes put into one file, as ranks are, one: its steps beside another's would be twice as many.
    busiest = int(np.bincount(threads).argmax())
    known = known & (table.thread == busiest)
    name = table.name[known]
    number = np.array([codes[int(code)] for code in name], dtype=np.int64)
    return Steps(table.start[known], table.end[known], name, number, table.thread[known], np.ones_like(name))
