"""Where memory went, on the device or else on the host: peak, timeline, kinds and modules at the peak, growth.

Everything comes from the profiler's memory events (profile_memory=True). They do not say what a block is for, so
its kind is inferred from its lifetime. What was allocated before the first event is resident; traces of tare know
how much of it is weights and optimizer state, by module. Of the blocks that were allocated later:

- optimizer state: allocated by the optimizer and never released in the trace;
- gradients: allocated by the backward pass and alive when the backward pass of its step ends;
- workspace: allocated and released within one operator;
- activations: allocated outside the backward pass and released during one, or never released;
- temporary: everything else.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import numpy as np

from tare.stats.growth import slope_interval
from tare.stats.intervals import Interval
from tare.trace.intervals import Integers, Mask, contains, normal
from tare.trace.names import COLLECTION, MODULE_PREFIX
from tare.trace.tables import Spans, Trace

MemoryKind = Literal[
    "resident", "weights", "optimizer state", "gradients", "activations", "workspace", "temporary"
]
KINDS: tuple[MemoryKind, ...] = get_args(MemoryKind)
RECORDED_KINDS: tuple[MemoryKind, ...] = ("weights", "optimizer state")
BEFORE = "before the trace began"
# `MemoryUse.device` for host memory.
HOST = -1
NEVER = 2**62
# A timeline of more points is reduced to the peaks of as many stretches.
MOST_POINTS = 400
MOST_OWNERS = 12


class MemoryOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Memory by the module or operator that allocated it. `blocks` is 0 for memory from before the trace."""

    where: str
    kind: MemoryKind
    bytes: int
    blocks: int


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that the allocator had handed out, on the trace's clock (ns)."""

    device: int
    peak_bytes: int
    peak_at: int
    reserved_bytes: int
    start_bytes: int
    end_bytes: int
    timeline: list[tuple[int, int]]
    by_kind: dict[MemoryKind, int]
    owners: list[MemoryOwner]
    after_step: list[int]
    # Bytes per step; None for fewer than 3 steps.
    growth: Interval | None
    # What Python's garbage collector released after the last step; None where it did not run.
    garbage: int | None
    # What was allocated in the trace and never released in it.
    unreleased: list[MemoryOwner]
    events: int


class ResidentMemory(msgspec.Struct, frozen=True):
    """Memory that a program held before the first event (tare.worker.profiling), by kind and by module."""

    sizes: dict[MemoryKind, int] = {}
    modules: dict[MemoryKind, dict[str, int]] = {}

    @property
    def total(self) -> int:
        return sum(self.sizes.values())

    def divide(self, by_kind: dict[MemoryKind, int]) -> list[MemoryOwner]:
        """Moves bytes from the kind "resident" to the kinds recorded here. Returns the owners of all of them."""
        owners = []
        for kind, size in self.sizes.items():
            part = min(size, by_kind["resident"])
            by_kind[kind] += part
            by_kind["resident"] -= part
            modules = self.modules.get(kind, {}) if part == size else {}
            owners += [MemoryOwner(where=name, kind=kind, bytes=n, blocks=0) for name, n in modules.items()]
            if (rest := part - sum(modules.values())) > 0:
                where = "other modules" if modules else BEFORE
                owners.append(MemoryOwner(where=where, kind=kind, bytes=rest, blocks=0))
        if by_kind["resident"] > 0:
            owners.append(MemoryOwner(where=BEFORE, kind="resident", bytes=by_kind["resident"], blocks=0))
        return owners


def _resident_memory(trace: Trace, host: bool) -> ResidentMemory:
    """What the trace's metadata say, if the program ran where the question is about."""
    info = trace.metadata.get("tare_profiled")
    resident = info.get("resident") if isinstance(info, dict) else None
    if not isinstance(resident, dict) or (resident.get("device", "cuda") == "cpu") != host:
        return ResidentMemory()
    modules = resident.get("modules")
    return ResidentMemory(
        _valid_sizes({kind: resident.get(kind) for kind in RECORDED_KINDS}),
        {kind: _valid_sizes(modules.get(kind)) for kind in RECORDED_KINDS} if isinstance(modules, dict) else {},
    )


def _valid_sizes(sizes: Any) -> dict[Any, int]:
    if not isinstance(sizes, dict):
        return {}
    return {
        name: size
        for name, size in sizes.items()
        if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1 << 62
    }


class _Held(NamedTuple):
    """The memory events of one device, and what was held after each of them and before the first."""

    device: int
    rows: Integers
    at: Integers
    bytes: Integers
    start: int
    resident: ResidentMemory


def memory_use(trace: Trace) -> MemoryUse | None:
    """The memory of the device that held most, or of the host if the trace has no device.

    None where the trace has no such memory events.
    """
    held = _held_by_device(trace)
    if held is None and not trace.has_device:
        held = _held_by_host(trace)
    if held is None:
        return None
    top = int(np.argmax(held.bytes))
    peak = int(held.bytes[top])
    blocks = _read_blocks(trace, held.rows)
    kinds = _kinds(trace, blocks)
    alive = _fit(blocks, blocks.alive(top), peak)
    by_kind: dict[MemoryKind, int] = dict.fromkeys(KINDS, 0)
    for i in alive.tolist():
        by_kind[kinds[i]] += int(blocks.bytes[i])
    # What the profiler never saw being allocated was there before, so that the kinds add up to the peak.
    by_kind["resident"] = peak - sum(by_kind.values())
    resident = held.resident.divide(by_kind)
    after = _after_steps(trace, held)
    return MemoryUse(
        device=held.device,
        peak_bytes=peak,
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
        unreleased=_owners(blocks, kinds, np.flatnonzero(blocks.unreleased), []),
        events=len(held.rows),
    )


def after_steps(trace: Trace) -> list[int]:
    """What was allocated on the device that held most when each step ended."""
    held = _held_by_device(trace)
    return [] if held is None else _after_steps(trace, held)


def _held_by_device(trace: Trace) -> _Held | None:
    table = trace.memory
    rows = np.flatnonzero((table.cuda == 1) & (table.allocated >= 0))
    if len(rows) == 0:
        return None
    device = int(table.device[rows[np.argmax(table.allocated[rows])]])
    rows = rows[table.device[rows] == device]
    allocated = table.allocated[rows]
    start = int(allocated[0] - table.bytes[rows[0]])
    return _Held(device, rows, table.start[rows], allocated, start, _resident_memory(trace, host=False))


def _held_by_host(trace: Trace) -> _Held | None:
    """The totals of the host's allocator include earlier recordings and cannot be used. The sum starts with the
    resident memory and with the releases of blocks that the trace did not see allocated."""
    table = trace.memory
    rows = np.flatnonzero(table.cuda == 0)
    if len(rows) == 0:
        return None
    resident, blocks = _resident_memory(trace, host=True), _read_blocks(trace, rows)
    sizes = table.bytes[rows]
    before = -int(sizes[sizes < 0].sum()) - int(blocks.bytes[~blocks.unreleased].sum())
    start = resident.total + max(before, 0)
    return _Held(HOST, rows, table.start[rows], start + np.cumsum(sizes), start, resident)


@dataclass(frozen=True)
class MemoryBlocks:
    """Blocks of memory: each allocation with its release, and with the operator and frame that allocated it.

    `first` and `last` are the positions of both among the events.
    """

    trace: Trace
    start: Integers
    end: Integers
    bytes: Integers
    first: Integers
    last: Integers
    operator: Integers
    frame: Integers
    within_operator: Mask

    @property
    def unreleased(self) -> Mask:
        return np.equal(self.end, NEVER)

    def alive(self, event: int) -> Integers:
        """The blocks that existed right after this event."""
        return np.flatnonzero((self.first <= event) & (self.last > event))

    def owner(self, block: int) -> str:
        """The module whose forward or backward allocated the block, else the outermost operator."""
        trace, row = self.trace, int(self.operator[block])
        module = self._module(int(self.frame[block]))
        if not module and trace.has_stacks and row >= 0:
            module = self._module(int(trace.forward_frame[row]))
        if module:
            return module
        if row < 0:
            return "outside any operator"
        parent, name = trace.operators.parent, trace.name
        while (above := int(parent[row])) >= 0 and "::engine::" not in name(trace.operators, above):
            row = above
        return name(trace.operators, row)

    def _module(self, frame: int) -> str:
        row = int(self.trace.frames.module[frame]) if frame >= 0 else -1
        return self.trace.name(self.trace.frames, row).removeprefix(MODULE_PREFIX) if row >= 0 else ""


def _read_blocks(trace: Trace, rows: Integers) -> MemoryBlocks:
    """The blocks of memory events in order. A release without an allocation makes no block."""
    table = trace.memory
    open_at: dict[int, int] = {}
    # Start, end, bytes, first, last and thread of each block.
    blocks: list[list[int]] = []
    columns = (table.start[rows], table.address[rows], table.bytes[rows], table.thread[rows])
    for position, (at, address, size, thread) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        if size == 0:
            continue
        if (block := open_at.pop(address, -1)) >= 0:
            # An allocation at the same address proves a release that was not recorded.
            blocks[block][1], blocks[block][4] = at, position
        if size > 0:
            open_at[address] = len(blocks)
            blocks.append([at, NEVER, size, position, NEVER, thread])
    start, end, sizes, first, last, threads = np.array(blocks, dtype=np.int64).reshape(-1, 6).T
    operators, frames = trace.operators, trace.frames
    operator, frame = (around.innermost(threads, start) for around in (operators, frames))
    within = operator >= 0
    within[within] = end[within] <= operators.end[operator[within]]
    return MemoryBlocks(trace, start, end, sizes, first, last, operator, frame, within)


def _kinds(trace: Trace, blocks: MemoryBlocks) -> list[MemoryKind]:
    by_optimizer = contains(_spans(trace, trace.annotations, "Optimizer.step#"), blocks.start)
    backward = _backward_passes(trace)
    allocated_in, released_in = contains(backward, blocks.start), contains(backward, blocks.end)
    kinds: list[MemoryKind] = []
    for i, unreleased in enumerate(blocks.unreleased.tolist()):
        if blocks.within_operator[i]:
            kinds.append("workspace")
        elif by_optimizer[i]:
            kinds.append("optimizer state" if unreleased else "temporary")
        elif allocated_in[i]:
            pass_end = int(backward[np.searchsorted(backward[:, 1], blocks.start[i], side="right"), 1])
            kinds.append("gradients" if unreleased or blocks.end[i] >= pass_end else "temporary")
        elif released_in[i] or (unreleased and len(backward) == 0):
            kinds.append("activations")
        else:
            kinds.append("temporary")
    return kinds


def _backward_passes(trace: Trace) -> Integers:
    """In each step, from the first to the last operator of autograd's engine."""
    engine = trace.operators.take(_named(trace, trace.operators, "autograd::engine::evaluate_function"))
    passes = []
    for start, end in zip(trace.steps.start.tolist(), trace.steps.end.tolist(), strict=True):
        inside = (engine.start >= start) & (engine.start < end)
        if inside.any():
            passes.append((int(engine.start[inside].min()), int(engine.end[inside].max())))
    return normal(np.array(passes, dtype=np.int64).reshape(-1, 2))


def _named(trace: Trace, table: Spans, prefix: str) -> Mask:
    return np.array([name.startswith(prefix) for name in trace.names] or [False], dtype=bool)[table.name]


def _spans(trace: Trace, table: Spans, prefix: str) -> Integers:
    return table.intervals(_named(trace, table, prefix))


def _fit(blocks: MemoryBlocks, alive: Integers, peak: int) -> Integers:
    """The newest blocks that fit into the allocator's total. If there are more, releases were not recorded, most
    likely those of the oldest blocks."""
    newest = alive[np.argsort(-blocks.first[alive], kind="stable")]
    return np.sort(newest[np.cumsum(blocks.bytes[newest]) <= peak])


def _owners(
    blocks: MemoryBlocks, kinds: list[MemoryKind], chosen: Integers, resident: list[MemoryOwner]
) -> list[MemoryOwner]:
    sizes: dict[tuple[str, MemoryKind], list[int]] = {}
    for i in chosen.tolist():
        sizes.setdefault((blocks.owner(i), kinds[i]), []).append(int(blocks.bytes[i]))
    owners = [
        MemoryOwner(where=where, kind=kind, bytes=sum(block_sizes), blocks=len(block_sizes))
        for (where, kind), block_sizes in sizes.items()
    ]
    return sorted(owners + resident, key=lambda owner: -owner.bytes)[:MOST_OWNERS]


def _after_steps(trace: Trace, held: _Held) -> list[int]:
    """What is allocated when each step ends; releases at that very moment still count to the step."""
    index = np.searchsorted(held.at, trace.steps.end, side="right") - 1
    return [int(held.bytes[i]) if i >= 0 else held.start for i in index.tolist()]


def _garbage(trace: Trace, held: _Held) -> int | None:
    if not _named(trace, trace.annotations, COLLECTION).any():
        return None
    collected = contains(_spans(trace, trace.annotations, COLLECTION), held.at)
    return -int(trace.memory.bytes[held.rows[collected]].sum())


def _timeline(at: Integers, held: Integers) -> list[tuple[int, int]]:
    chosen = np.arange(len(at))
    if len(at) > MOST_POINTS:
        chosen = np.array([part[np.argmax(held[part])] for part in np.array_split(chosen, MOST_POINTS)])
    return list(zip(at[chosen].tolist(), held[chosen].tolist(), strict=True))
