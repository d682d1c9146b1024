"""A step's time as the device saw it: active, movement, idle. They add up to the window, exactly.

active = |union(kernels, memsets, copies within the device)|; movement = |union(copies between host and device)|
minus that; idle = the rest (DESIGN.md, rules 4 and 5). Everything that ran on the device in a window counts in it,
whoever launched it; what was launched before the window or by nobody we know is counted beside.
"""

from collections.abc import Iterable

import msgspec
import numpy as np

from tare.trace import intervals as iv
from tare.trace.columns import distinct
from tare.trace.tables import (
    COPY,
    DEVICE_TO_DEVICE,
    DIRECTIONS,
    GRAPH,
    PAGEABLE,
    PINNED,
    Mask,
    Trace,
)
from tare.trace.windows import check_kernels, counted_step, launching, main_device, windows

MEMORIES = {PAGEABLE: "pageable", PINNED: "pinned", -1: ""}


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step, in nanoseconds of the profiled run: for shares only, never to be reported as times."""

    number: int
    window: int
    active: int
    movement: int
    idle: int
    kernels: int
    launches: int


class Copies(msgspec.Struct, frozen=True, kw_only=True):
    """The copies of one direction and one kind of host memory, in all windows. `exposed` ran beside no kernel."""

    direction: str
    memory: str
    count: int
    bytes: int
    busy: int
    exposed: int


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    stream: int
    kernels: int
    copies: int
    busy: int


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A share of the window over the steps."""

    median: float
    least: float
    most: float


class Breakdown(msgspec.Struct, frozen=True, kw_only=True):
    """`window` = `active` + `movement` + `idle`, summed over the steps."""

    device: int
    steps: list[Step]
    window: int
    active: int
    movement: int
    idle: int
    copies: list[Copies]
    streams: list[Stream]
    # Kernels beside other kernels: how much kernel time more than one stream did at once.
    overlapped: int
    # How long the host was in launching calls (any thread), beside the device or not.
    launching: int
    graph_launches: int
    graph_kernels: int
    # Work without a launching call; work launched before the window in which it ran; launches without work.
    orphans: int
    launched_before: int
    lost_launches: int
    other_devices: list[int]

    def share(self, part: str) -> Spread:
        """Of each step's window; `part` is active, movement or idle."""
        shares = [getattr(step, part) / step.window for step in self.steps if step.window]
        return Spread(median=float(np.median(shares)), least=min(shares), most=max(shares))


def breakdown(trace: Trace) -> Breakdown | None:
    """The trace's steps broken down for its main device; None for a trace without device work or launches."""
    check_kernels(trace)
    device = main_device(trace)
    if device is None:
        return None
    work, rows = trace.device, windows(trace, device)
    mine: Mask = work.device == device
    moving = mine & (work.kind == COPY) & (work.direction != DEVICE_TO_DEVICE)
    computing = work.intervals(mine & ~moving)
    inside = iv.make(rows[:, 1], rows[:, 2])
    moved = iv.difference(work.intervals(moving), computing)
    steps = _steps(trace, rows, mine, computing, moved)
    ran = mine & iv.contains(inside, work.start)
    return Breakdown(
        device=device,
        steps=steps,
        window=sum(step.window for step in steps),
        active=sum(step.active for step in steps),
        movement=sum(step.movement for step in steps),
        idle=sum(step.idle for step in steps),
        copies=list(_copies(trace, ran & (work.kind == COPY), computing)),
        streams=list(_streams(trace, ran)),
        overlapped=_overlapped(trace, ran),
        launching=iv.total(iv.intersection(trace.calls.intervals(launching(trace)), inside)),
        graph_launches=int(_calls_in(trace, GRAPH, inside)),
        graph_kernels=int((ran & work.kernels & (_call_kind(trace) == GRAPH)).sum()),
        orphans=int((ran & (work.call < 0)).sum()),
        launched_before=_launched_before(trace, ran, rows),
        lost_launches=_lost(trace, inside),
        other_devices=[int(one) for one in distinct(work.device) if one != device],
    )


def _steps(
    trace: Trace, rows: iv.Integers, mine: Mask, computing: iv.Intervals, moved: iv.Intervals
) -> list[Step]:
    number, start, end, _ = rows.T
    work = trace.device
    active, movement = (iv.covered_length(what, start, end) for what in (computing, moved))
    columns = (
        number,
        end - start,
        active,
        movement,
        end - start - active - movement,
        _count(work.start[mine & work.kernels], start, end),
        _launches(trace, mine),
    )
    names = Step.__struct_fields__
    return [Step(**dict(zip(names, map(int, row), strict=True))) for row in zip(*columns, strict=True)]


def _count(times: iv.Integers, start: iv.Integers, end: iv.Integers) -> iv.Integers:
    """How many of the (sorted) moments lie in each window."""
    return np.searchsorted(times, end) - np.searchsorted(times, start)


def _launches(trace: Trace, mine: Mask) -> iv.Integers:
    """How often the host launched in each counted step, which may be long before its window; without what it
    launched on other devices."""
    call = trace.device.call
    ours = launching(trace)
    ours[call[~mine & (call >= 0)]] = False
    step = counted_step(trace, trace.calls.start[ours])
    return np.bincount(step[step >= 0], minlength=int(trace.steps.counted.sum()))


def _copies(trace: Trace, ran: Mask, computing: iv.Intervals) -> Iterable[Copies]:
    work = trace.device
    for direction, memory in sorted({(int(work.direction[i]), int(work.memory[i])) for i in np.flatnonzero(ran)}):
        rows = ran & (work.direction == direction) & (work.memory == memory)
        covered = work.intervals(rows)
        sizes = work.bytes[rows]
        yield Copies(
            direction=DIRECTIONS[direction] if direction >= 0 else "unknown",
            memory=MEMORIES[memory],
            count=int(rows.sum()),
            bytes=int(sizes[sizes > 0].sum()),
            busy=iv.total(covered),
            # A copy within the device is computing itself: it exposes nothing.
            exposed=0 if direction == DEVICE_TO_DEVICE else iv.total(iv.difference(covered, computing)),
        )


def _streams(trace: Trace, ran: Mask) -> Iterable[Stream]:
    work = trace.device
    for stream in distinct(work.stream[ran]):
        rows = ran & (work.stream == stream)
        yield Stream(
            stream=int(stream),
            kernels=int((rows & work.kernels).sum()),
            copies=int((rows & work.copies).sum()),
            busy=iv.total(work.intervals(rows)),
        )


def _overlapped(trace: Trace, ran: Mask) -> int:
    """Kernel time summed stream by stream, less the device's: zero where one stream works at a time."""
    work = trace.device
    kernels = ran & work.kernels
    apart = sum(iv.total(work.intervals(kernels & (work.stream == one))) for one in distinct(work.stream[kernels]))
    return apart - iv.total(work.intervals(kernels))


def _call_kind(trace: Trace) -> iv.Integers:
    call = trace.device.call
    if len(trace.calls) == 0:
        return np.full(len(call), -1, dtype=np.int64)
    return np.where(call >= 0, trace.calls.kind[np.maximum(call, 0)], -1)


def _calls_in(trace: Trace, kind: int, inside: iv.Intervals) -> int:
    return int((np.equal(trace.calls.kind, kind) & iv.contains(inside, trace.calls.start)).sum())


def _launched_before(trace: Trace, ran: Mask, rows: iv.Integers) -> int:
    """Work of an earlier step, or of no step, that ran in a window."""
    work = trace.device
    known = np.flatnonzero(ran & (work.call >= 0))
    window = np.searchsorted(rows[:, 1], work.start[known], side="right") - 1
    # A window may have been cut at its front by the one before it: the step itself began earlier.
    begun = trace.steps.start[rows[np.maximum(window, 0), 3]]
    return int((trace.calls.start[work.call[known]] < begun).sum())


def _lost(trace: Trace, inside: iv.Intervals) -> int:
    """Launches in the windows whose kernels the profiler did not report."""
    calls = trace.calls
    without = launching(trace) & iv.contains(inside, calls.start)
    without[trace.device.call[trace.device.call >= 0]] = False
    return int(without.sum())
