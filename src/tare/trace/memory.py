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

from typing import Annotated, Literal, NamedTuple, get_args

import msgspec
import numpy as np

from tare.stats.growth import slope_interval
from tare.stats.intervals import Interval
from tare.trace.intervals import Integers, Intervals, Mask, contains, make
from tare.trace.names import COLLECTION, MODULE_PREFIX
from tare.trace.spans import pick, sum_by
from tare.trace.tables import Trace, once
from tare.trace.windows import step_at

MemoryKind = Literal[
    "resident", "weights", "optimizer state", "gradients", "activations", "workspace", "temporary"
]
KINDS: tuple[MemoryKind, ...] = get_args(MemoryKind)
_, _, OPTIMIZER, GRADIENTS, ACTIVATIONS, WORKSPACE, TEMPORARY = range(len(KINDS))
BEFORE, OUTSIDE = "before the trace began", "outside any operator"
# `MemoryUse.device` for host memory.
HOST = -1
NEVER = 2**62
# A timeline of more points is reduced to the peaks of as many stretches.
MOST_POINTS = 400
MOST_OWNERS = 12
MOST_STEPS = 1000
Bytes = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


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

    weights: Bytes = 0
    optimizer_state: Bytes = msgspec.field(name="optimizer state", default=0)
    modules: dict[str, dict[str, Bytes]] = {}
    device: str = "cuda"

    def divide(self, by_kind: dict[MemoryKind, int]) -> list[MemoryOwner]:
        """Moves bytes from the kind "resident" to the kinds recorded here. Returns the owners of all of them."""
        owners = []
        sizes: dict[MemoryKind, int] = {"weights": self.weights, "optimizer state": self.optimizer_state}
        for kind, size in sizes.items():
            part = min(size, by_kind["resident"])
            by_kind[kind] += part
            by_kind["resident"] -= part
            modules = self.modules.get(kind, {}) if part == size else {}
            rest = {"other modules" if modules else BEFORE: part - sum(modules.values())}
            owners += [
                MemoryOwner(where=where, kind=kind, bytes=n, blocks=0) for where, n in (modules | rest).items()
            ]
        owners.append(MemoryOwner(where=BEFORE, kind="resident", bytes=by_kind["resident"], blocks=0))
        return [owner for owner in owners if owner.bytes > 0]


def _resident_memory(trace: Trace, host: bool) -> ResidentMemory:
    """What the trace's metadata say, if the program ran where the question is about."""
    info = trace.metadata.get("tare_profiled")
    try:
        resident = msgspec.convert(info.get("resident") if isinstance(info, dict) else None, ResidentMemory)
    except msgspec.ValidationError:
        return ResidentMemory()
    return resident if (resident.device == "cpu") == host else ResidentMemory()


class _Held(NamedTuple):
    """The memory events of one device, and what was held after each of them and before the first."""

    device: int
    rows: Integers
    at: Integers
    bytes: Integers
    start: int
    resident: ResidentMemory


@once
def memory_use(trace: Trace) -> MemoryUse | None:
    """The memory of the device that held most, or of the host if the trace has no device.

    None where the trace has no such memory events.
    """
    held = _held(trace)
    if held is None:
        return None
    top, peak, blocks, alive = _at_peak(trace, held)
    kind, where = _kinds(trace, blocks), _places(trace, blocks)
    sizes = sum_by(kind[alive], blocks.bytes[alive], len(KINDS)).tolist()
    by_kind: dict[MemoryKind, int] = dict(zip(KINDS, sizes, strict=True))
    # What the profiler never saw being allocated was there before, so that the kinds add up to the peak.
    by_kind["resident"] = peak - sum(sizes)
    resident = held.resident.divide(by_kind)
    # Releases at the very moment when a step ends still count to the step.
    after = np.append(held.start, held.bytes)[np.searchsorted(held.at, trace.steps.end, side="right")].tolist()
    return MemoryUse(
        device=held.device,
        peak_bytes=peak,
        peak_at=int(held.at[top]),
        reserved_bytes=int(trace.memory.reserved[held.rows].max()),
        start_bytes=held.start,
        end_bytes=int(held.bytes[-1]),
        timeline=_timeline(held.at, held.bytes),
        by_kind=by_kind,
        owners=_largest(_owners(trace, blocks, kind, where, alive) + resident),
        after_step=after,
        growth=_growth(after),
        garbage=_garbage(trace, held),
        unreleased=_largest(_owners(trace, blocks, kind, where, np.flatnonzero(blocks.unreleased))),
        events=len(held.rows),
    )


def _growth(after: list[int]) -> Interval | None:
    """The slope uses all pairs of steps: of a long trace even ones are enough."""
    if len(after) < 3:
        return None
    at = np.linspace(0, len(after) - 1, min(len(after), MOST_STEPS)).astype(np.int64)
    return slope_interval(np.array(after)[at], at)


class HeldMemory(NamedTuple):
    """What was allocated in the trace: by which thread and when, and what of it was held at the peak, and was
    never released."""

    thread: Integers
    start: Integers
    bytes: Integers
    at_peak: Integers
    kept: Integers
    peak_bytes: int


def held_memory(trace: Trace) -> HeldMemory | None:
    """Of the device or the host that memory_use is about."""
    held = _held(trace)
    if held is None:
        return None
    _, peak, blocks, alive = _at_peak(trace, held)
    thread = trace.memory.thread[held.rows[blocks.first]]
    return HeldMemory(thread, blocks.start, blocks.bytes, alive, np.flatnonzero(blocks.unreleased), peak)


def _held(trace: Trace) -> _Held | None:
    held = _held_by_device(trace)
    return _held_by_host(trace) if held is None and not trace.has_device else held


def _at_peak(trace: Trace, held: _Held) -> tuple[int, int, "_Allocations", Integers]:
    """The event after which most is held, how much that is, all blocks, and those that are held then."""
    top = int(np.argmax(held.bytes))
    peak = int(held.bytes[top])
    blocks = _read_blocks(trace, held.rows)
    return top, peak, blocks, _fit(blocks, top, peak)


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
    rows = np.flatnonzero(trace.memory.cuda == 0)
    if len(rows) == 0:
        return None
    resident, blocks = _resident_memory(trace, host=True), _read_blocks(trace, rows)
    sizes = trace.memory.bytes[rows]
    before = -int(sizes[sizes < 0].sum()) - int(blocks.bytes[~blocks.unreleased].sum())
    start = resident.weights + resident.optimizer_state + max(before, 0)
    return _Held(HOST, rows, trace.memory.start[rows], start + np.cumsum(sizes), start, resident)


class _Allocations(NamedTuple):
    """Blocks of memory: each allocation with its release. `first` and `last` are the positions of both among the
    events. `operator` and `frame` allocated it."""

    start: Integers
    end: Integers
    bytes: Integers
    first: Integers
    last: Integers
    operator: Integers
    frame: Integers

    @property
    def unreleased(self) -> Mask:
        return np.equal(self.end, NEVER)


def _read_blocks(trace: Trace, rows: Integers) -> _Allocations:
    """The blocks of memory events in order. A release without an allocation makes no block."""
    position = np.flatnonzero(trace.memory.bytes[rows])
    table = trace.memory.take(rows[position])
    # The next event at the same address ends a block. If it is an allocation, the release was not recorded.
    by_address = np.argsort(table.address, kind="stable")
    following = np.full(len(table), -1, dtype=np.int64)
    same = np.diff(table.address[by_address]) == 0
    following[by_address[:-1][same]] = by_address[1:][same]
    following, first, block = (column[table.bytes > 0] for column in (following, position, np.arange(len(table))))
    end, last = (np.where(following >= 0, pick(column, following), NEVER) for column in (table.start, position))
    thread, start = table.thread[block], table.start[block]
    around = (around.innermost(thread, start) for around in (trace.operators, trace.frames))
    return _Allocations(start, end, table.bytes[block], first, last, *around)


def _kinds(trace: Trace, blocks: _Allocations) -> Integers:
    """The index of each block's kind in KINDS."""
    optimizer = trace.matching(trace.annotations, lambda name: name.startswith("Optimizer.step#"))
    by_optimizer = contains(trace.annotations.intervals(optimizer), blocks.start)
    backward = _backward_passes(trace)
    in_backward, released_in = contains(backward, blocks.start), contains(backward, blocks.end)
    pass_end = pick(
        backward[:, 1], np.where(in_backward, np.searchsorted(backward[:, 1], blocks.start, "right"), -1)
    )
    return np.select(
        [
            (blocks.operator >= 0) & (blocks.end <= pick(trace.operators.end, blocks.operator)),
            by_optimizer & blocks.unreleased,
            by_optimizer,
            in_backward & (blocks.end >= pass_end),
            ~in_backward & (released_in | (blocks.unreleased & (len(backward) == 0))),
        ],
        [WORKSPACE, OPTIMIZER, TEMPORARY, GRADIENTS, ACTIVATIONS],
        TEMPORARY,
    )


def _backward_passes(trace: Trace) -> Intervals:
    """In each step, from the first to the last operator of autograd's engine."""
    engine = trace.matching(trace.operators, lambda name: name.startswith("autograd::engine::evaluate_function"))
    step = step_at(trace, trace.operators.start)
    rows = np.flatnonzero(engine & (step >= 0))
    _, first = np.unique(step[rows], return_index=True)
    return make(trace.operators.start[rows[first]], np.maximum.reduceat(trace.operators.end[rows], first))


def _places(trace: Trace, blocks: _Allocations) -> Integers:
    """The name of the module whose forward or backward allocated each block, else of the outermost operator."""
    operators, frames = trace.operators, trace.frames
    in_forward, in_backward = (
        pick(frames.name, pick(frames.module, frame))
        for frame in (blocks.frame, pick(trace.forward_frame, blocks.operator))
    )
    engine = trace.matching(operators, lambda name: "::engine::" in name).astype(np.int64)
    is_outermost = (operators.parent < 0) | (pick(engine, operators.parent) == 1)
    outermost = operators.inherit(np.where(is_outermost, np.arange(len(operators)), -1))
    operator = pick(operators.name, pick(outermost, blocks.operator))
    return np.select([in_forward >= 0, in_backward >= 0], [in_forward, in_backward], operator)


def _owners(
    trace: Trace, blocks: _Allocations, kind: Integers, where: Integers, chosen: Integers
) -> list[MemoryOwner]:
    pairs, group = np.unique(where[chosen] * len(KINDS) + kind[chosen], return_inverse=True)
    sizes, counts = sum_by(group, blocks.bytes[chosen], len(pairs)), np.bincount(group, minlength=len(pairs))
    return [
        MemoryOwner(
            where=trace.names[pair // len(KINDS)].removeprefix(MODULE_PREFIX) if pair >= 0 else OUTSIDE,
            kind=KINDS[pair % len(KINDS)],
            bytes=size,
            blocks=count,
        )
        for pair, size, count in zip(pairs.tolist(), sizes.tolist(), counts.tolist(), strict=True)
    ]


def _largest(owners: list[MemoryOwner]) -> list[MemoryOwner]:
    return sorted(owners, key=lambda owner: -owner.bytes)[:MOST_OWNERS]


def _fit(blocks: _Allocations, event: int, held: int) -> Integers:
    """The blocks that existed right after this event: the newest that fit into the allocator's total. If there are
    more, releases were not recorded, most likely those of the oldest blocks."""
    newest = np.flatnonzero((blocks.first <= event) & (blocks.last > event))[::-1]
    return newest[np.cumsum(blocks.bytes[newest]) <= held]


def _garbage(trace: Trace, held: _Held) -> int | None:
    collections = trace.matching(trace.annotations, lambda name: name.startswith(COLLECTION))
    if not collections.any():
        return None
    collected = contains(trace.annotations.intervals(collections), held.at)
    return -int(trace.memory.bytes[held.rows[collected]].sum())


def _timeline(at: Integers, held: Integers) -> list[tuple[int, int]]:
    chosen = np.arange(len(at))
    if len(at) > MOST_POINTS:
        # The first stretches are one longer than the others, and together there are MOST_POINTS.
        size, longer = divmod(len(at), MOST_POINTS)
        border = longer * (size + 1)
        stretches = (part.reshape(-1, n) for part, n in ((chosen[:border], size + 1), (chosen[border:], size)))
        chosen = np.concatenate([part[np.arange(len(part)), held[part].argmax(axis=1)] for part in stretches])
    return list(zip(at[chosen].tolist(), held[chosen].tolist(), strict=True))
