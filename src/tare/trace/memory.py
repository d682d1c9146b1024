"""Where memory went, the device's or without one the host's: the peak, a timeline, what was alive at the peak by
kind and module, growth per step.

All of it from the profiler's memory events (profile_memory=True). A block's kind is told from its life, for the
trace has no word on it: what was there before the first event is resident, of which tare's own traces know the
weights and the optimizer state by module (memory_known.py); of what came later

- optimizer state: allocated by the optimizer and still there when the trace ends;
- gradients: allocated by the backward pass and alive when the backward pass of its step is over;
- workspace: allocated and released within one operator;
- activations: allocated outside the backward pass and released during one, or still held;
- temporary: everything else.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from tare.stats.growth import slope_interval
from tare.stats.intervals import Interval
from tare.trace.intervals import contains, normal
from tare.trace.memory_blocks import Blocks, read_blocks
from tare.trace.memory_known import KINDS, Kind, Known, Owner, known_of
from tare.trace.naming import COLLECTION
from tare.trace.tables import Integers, Mask, Trace

HOST = -1
# A timeline of more points is thinned to the peaks of as many stretches.
MOST_POINTS = 400
MOST_OWNERS = 12


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that the allocator had given out, on the trace's clock (ns). `growth` is bytes a step, None below 3
    steps. `device` is HOST for the host's memory; of that only tare's own traces know what was there before."""

    device: int
    peak_bytes: int
    peak_at: int
    reserved_bytes: int
    start_bytes: int
    end_bytes: int
    timeline: list[tuple[int, int]]
    by_kind: dict[Kind, int]
    owners: list[Owner]
    after_step: list[int]
    growth: Interval | None
    # What Python's collector released after the last step; None where nobody has let it.
    garbage: int | None
    # What was allocated during the trace and never released in it.
    left: list[Owner]
    events: int


class _Held(NamedTuple):
    """Memory events of one device, in order, and what was held after each of them and before the first."""

    device: int
    rows: Integers
    at: Integers
    bytes: Integers
    start: int
    # What tare says that the program held on it.
    known: Known


def memory_use(trace: Trace, device: int | None = None) -> MemoryUse | None:
    """Of the device that held most, or of this one; without a device that of the host. None where the trace has no
    such memory events."""
    held = _held(trace, device)
    if held is None and device is None and not trace.has_device:
        held = _held_by_host(trace)
    if held is None:
        return None
    top = int(np.argmax(held.bytes))
    blocks = read_blocks(trace, held.rows)
    kinds = _kinds(trace, blocks)
    alive = _fitting(blocks, blocks.alive(top), int(held.bytes[top]))
    by_kind = _by_kind(blocks, kinds, alive, int(held.bytes[top]))
    resident = held.known.divide(by_kind)
    after = _after_steps(trace, held)
    return MemoryUse(
        device=held.device,
        peak_bytes=int(held.bytes[top]),
        peak_at=int(held.at[top]),
        reserved_bytes=int(trace.memory.reserved[held.rows].max()),
        start_bytes=held.start,
        end_bytes=int(held.bytes[-1]),
        timeline=_timeline(held.at, held.bytes),
        by_kind=by_kind,
        owners=_owners(blocks, kinds, alive, resident),
        after_step=after,
        growth=slope_interval(after) if len(after) >= 3 else None,
        garbage=_garbage(trace, held),
        left=_owners(blocks, kinds, np.flatnonzero(blocks.kept), []),
        events=len(held.rows),
    )


def _held(trace: Trace, device: int | None) -> _Held | None:
    table = trace.memory
    rows = np.flatnonzero((table.cuda == 1) & (table.allocated >= 0))
    if len(rows) == 0:
        return None
    if device is None:
        device = int(table.device[rows[np.argmax(table.allocated[rows])]])
    rows = rows[table.device[rows] == device]
    if len(rows) == 0:
        return None
    held = table.allocated[rows]
    start = int(held[0] - table.bytes[rows[0]])
    return _Held(device, rows, table.start[rows], held, start, known_of(trace, host=False))


def _held_by_host(trace: Trace) -> _Held | None:
    """The host's allocator counts only what it gave out under a profiler, in an earlier recording too, and so its
    totals say nothing. Here: what tare knows of the program, what the trace sees released and not allocated, and
    from there on event by event."""
    table = trace.memory
    rows = np.flatnonzero(table.cuda == 0)
    if len(rows) == 0:
        return None
    known, blocks = known_of(trace, host=True), read_blocks(trace, rows)
    sizes = table.bytes[rows]
    before = -int(sizes[sizes < 0].sum()) - int(blocks.bytes[~blocks.kept].sum())
    start = known.total + max(before, 0)
    return _Held(HOST, rows, table.start[rows], start + np.cumsum(sizes), start, known)


def _kinds(trace: Trace, blocks: Blocks) -> list[Kind]:
    marks = trace.annotations
    stepping = _named(trace, "Optimizer.step#")
    optimizer = contains(marks.intervals(stepping), blocks.start)
    backward = _backward(trace)
    ends = backward[:, 1] if len(backward) else np.empty(0, dtype=np.int64)
    made_in_backward = contains(backward, blocks.start)
    freed_in_backward = contains(backward, blocks.end)
    kinds: list[Kind] = []
    for i in range(len(blocks.start)):
        if blocks.within_operator[i]:
            kinds.append("workspace")
        elif optimizer[i]:
            kinds.append("optimizer state" if blocks.kept[i] else "temporary")
        elif made_in_backward[i]:
            over = int(ends[np.searchsorted(ends, blocks.start[i], side="right")])
            kinds.append("gradients" if blocks.kept[i] or blocks.end[i] >= over else "temporary")
        elif freed_in_backward[i] or (blocks.kept[i] and len(backward) == 0):
            kinds.append("activations")
        else:
            kinds.append("temporary")
    return kinds


def _backward(trace: Trace) -> Integers:
    """The backward passes: for each step, from the first to the last operator of autograd's engine."""
    table = trace.operators
    engine = np.flatnonzero(_codes(trace, "autograd::engine::evaluate_function")[table.name])
    spans = []
    for start, end in zip(trace.steps.start.tolist(), trace.steps.end.tolist(), strict=True):
        inside = engine[(table.start[engine] >= start) & (table.start[engine] < end)]
        if len(inside):
            spans.append((int(table.start[inside].min()), int(table.end[inside].max())))
    return normal(np.array(spans, dtype=np.int64).reshape(-1, 2))


def _named(trace: Trace, prefix: str) -> Integers:
    return np.flatnonzero(_codes(trace, prefix)[trace.annotations.name])


def _codes(trace: Trace, prefix: str) -> Mask:
    return np.array([name.startswith(prefix) for name in trace.names] or [False], dtype=bool)


def _by_kind(blocks: Blocks, kinds: list[Kind], alive: Integers, held: int) -> dict[Kind, int]:
    found: dict[Kind, int] = dict.fromkeys(KINDS, 0)
    for i in alive.tolist():
        found[kinds[i]] += int(blocks.bytes[i])
    # What the profiler never saw being allocated was there before; the parts add up to what the allocator says.
    found["resident"] = held - sum(found.values())
    return found


def _fitting(blocks: Blocks, alive: Integers, held: int) -> Integers:
    """Without the oldest, where they are more than the allocator says it had given out: then releases are missing
    in the trace, and the oldest have had most time for theirs."""
    newest = alive[np.argsort(-blocks.first[alive], kind="stable")]
    kept = newest[np.cumsum(blocks.bytes[newest]) <= held]
    return np.sort(kept)


def after_steps(trace: Trace, device: int | None = None) -> list[int]:
    """What was allocated on the device that held most, or on this one, when each step ended."""
    held = _held(trace, device)
    return [] if held is None else _after_steps(trace, held)


def _owners(blocks: Blocks, kinds: list[Kind], alive: Integers, resident: list[Owner]) -> list[Owner]:
    sums: dict[tuple[str, Kind], list[int]] = {}
    for i in alive.tolist():
        entry = sums.setdefault((blocks.owner(i), kinds[i]), [0, 0])
        entry[0] += int(blocks.bytes[i])
        entry[1] += 1
    owners = [Owner(where=where, kind=kind, bytes=n, blocks=count) for (where, kind), (n, count) in sums.items()]
    return sorted(owners + resident, key=lambda owner: -owner.bytes)[:MOST_OWNERS]


def _after_steps(trace: Trace, held: _Held) -> list[int]:
    """What is allocated when each step ends; releases at the very start of the next one still count to it."""
    index = np.searchsorted(held.at, trace.steps.end, side="right") - 1
    return [int(held.bytes[i]) if i >= 0 else held.start for i in index.tolist()]


def _garbage(trace: Trace, held: _Held) -> int | None:
    runs = _named(trace, COLLECTION)
    if len(runs) == 0:
        return None
    spans = trace.annotations.intervals(runs)
    freed = contains(spans, held.at)
    return -int(trace.memory.bytes[held.rows[freed]].sum())


def _timeline(at: Integers, held: Integers) -> list[tuple[int, int]]:
    if len(at) <= MOST_POINTS:
        return [(int(t), int(h)) for t, h in zip(at, held, strict=True)]
    parts = np.array_split(np.arange(len(at)), MOST_POINTS)
    chosen = [int(part[np.argmax(held[part])]) for part in parts]
    return [(int(at[i]), int(held[i])) for i in chosen]
