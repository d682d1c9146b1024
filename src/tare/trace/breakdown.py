"""A step's time as the device saw it: active, communicating, movement and idle, which add up to the window
exactly.

active = |union(kernels, memsets, copies within the device)| without collectives; communicating =
|union(collectives)| minus active; movement = |union(copies between host and device)| minus both; idle = the
rest. All device work in a window counts in it, whoever launched it. Work that was launched before the window,
or by a call that was not recorded, is also counted separately.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from tare.errors import BadInput
from tare.trace import intervals as iv
from tare.trace.collectives import CollectiveUse, collective_uses
from tare.trace.intervals import Integers, Mask, distinct
from tare.trace.spans import pick, rows_by_value
from tare.trace.tables import COPY, DEVICE_TO_DEVICE, DIRECTIONS, GRAPH, PAGEABLE, PINNED, Trace
from tare.trace.windows import counted_step, main_device, windows

MEMORIES = {PAGEABLE: "pageable", PINNED: "pinned", -1: ""}


class StepBreakdown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step, in nanoseconds of the profiled run: for shares only, never to be reported as times."""

    number: int
    window: int
    active: int
    movement: int
    idle: int
    kernels: int
    launches: int
    communicating: int = 0


class Copies(msgspec.Struct, frozen=True, kw_only=True):
    """The copies of one direction and one kind of host memory. `exposed` is the time with no kernel beside
    it."""

    direction: str
    memory: str
    count: int
    bytes: int
    busy: int
    exposed: int


class StreamUse(msgspec.Struct, frozen=True, kw_only=True):
    stream: int
    kernels: int
    copies: int
    busy: int


class ShareRange(msgspec.Struct, frozen=True, kw_only=True):
    """A share of the window over the steps."""

    median: float
    least: float
    most: float


class Breakdown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`window` = `active` + `communicating` + `movement` + `idle`, summed over the counted steps."""

    device: int
    steps: list[StepBreakdown]
    window: int
    active: int
    movement: int
    idle: int
    copies: list[Copies]
    streams: list[StreamUse]
    # Kernel time during which another stream ran a kernel too.
    overlapped: int
    # Time that the host spent in launch calls, on any thread.
    launching: int
    graph_launches: int
    graph_kernels: int
    # Work without a launching call; work launched before its window; launches without work.
    orphans: int
    launched_before: int
    lost_launches: int
    other_devices: list[int]
    # Collectives with nothing computed beside them, and the time of those beside which something was.
    communicating: int = 0
    communication_overlapped: int = 0
    collectives: list[CollectiveUse] = []

    def share(self, part: str) -> ShareRange:
        """The share of each step's window that is active, communicating, movement or idle."""
        shares = [getattr(step, part) / step.window for step in self.steps if step.window]
        return ShareRange(median=float(np.median(shares)), least=min(shares), most=max(shares))


def breakdown(trace: Trace) -> Breakdown | None:
    """The breakdown of the counted steps on the main device; None for a trace without device work."""
    work, calls, device = trace.device, trace.calls, main_device(trace)
    if calls.launches.any() and not work.kernels.any():
        raise BadInput(
            f"the trace {trace.source} has {calls.launches.sum()} kernel launches and no kernel: the profiler "
            "lost the device's side; record it again, with at least one warm-up step in the profiler's schedule"
        )
    if device is None:
        return None
    rows = windows(trace, device)
    on_device: Mask = work.device == device
    computes, collective, moving = divide_work(trace, device)
    computing, communicating = work.intervals(computes), work.intervals(collective)
    exposed = iv.difference(communicating, computing)
    moved = iv.difference(work.intervals(moving), iv.union(computing, communicating))
    steps = _steps(trace, rows, on_device, (computing, exposed, moved))
    inside = iv.make(rows[:, 1], rows[:, 2])
    ran = on_device & iv.contains(inside, work.start)
    called = iv.contains(inside, calls.start)
    without_kernel = calls.launches & called
    without_kernel[work.call[work.call >= 0]] = False
    kernels = ran & work.kernels
    return Breakdown(
        device=device,
        steps=steps,
        window=sum(step.window for step in steps),
        active=sum(step.active for step in steps),
        movement=sum(step.movement for step in steps),
        idle=sum(step.idle for step in steps),
        copies=list(_copies(trace, ran & work.copies, computing)),
        streams=[_stream_use(trace, stream, rows) for stream, rows in _by_stream(trace, ran)],
        # The kernel time summed over the streams, less that of the device.
        overlapped=sum(iv.total(work.intervals(rows)) for _, rows in _by_stream(trace, kernels))
        - iv.total(work.intervals(kernels)),
        launching=iv.total(iv.intersection(calls.intervals(calls.launches), inside)),
        graph_launches=int((np.equal(calls.kind, GRAPH) & called).sum()),
        graph_kernels=int((kernels & (pick(calls.kind, work.call) == GRAPH)).sum()),
        orphans=int((ran & (work.call < 0)).sum()),
        launched_before=_launched_before(trace, ran, rows),
        lost_launches=int(without_kernel.sum()),
        other_devices=[int(other) for other in distinct(work.device) if other != device],
        communicating=sum(step.communicating for step in steps),
        communication_overlapped=iv.total(iv.intersection(iv.intersection(communicating, computing), inside)),
        collectives=collective_uses(trace, ran, computing) if collective.any() else [],
    )


def divide_work(trace: Trace, device: int | None) -> tuple[Mask, Mask, Mask]:
    """The rows of a device's work that compute, communicate, and move data between host and device."""
    work = trace.device
    on_device: Mask = work.device == device
    moving = on_device & (work.kind == COPY) & (work.direction != DEVICE_TO_DEVICE)
    communicating = on_device & trace.communicates
    return on_device & ~moving & ~communicating, communicating, moving


def _steps(
    trace: Trace, rows: Integers, on_device: Mask, parts: tuple[iv.Intervals, iv.Intervals, iv.Intervals]
) -> list[StepBreakdown]:
    number, start, end, _ = rows.T
    work = trace.device
    active, communicating, movement = (iv.covered_length(part, start, end) for part in parts)
    kernels = work.start[on_device & work.kernels]
    columns = (
        number,
        end - start,
        active,
        movement,
        end - start - active - communicating - movement,
        np.searchsorted(kernels, end) - np.searchsorted(kernels, start),
        _launches(trace, on_device),
        communicating,
    )
    names = StepBreakdown.__struct_fields__
    return [StepBreakdown(**dict(zip(names, map(int, row), strict=True))) for row in zip(*columns, strict=True)]


def _launches(trace: Trace, on_device: Mask) -> Integers:
    """The number of launches that the host made during each counted step, without those on other devices."""
    call, ours = trace.device.call, trace.calls.launches
    ours[call[~on_device & (call >= 0)]] = False
    step = counted_step(trace, trace.calls.start[ours])
    return np.bincount(step[step >= 0], minlength=int(trace.steps.counted.sum()))


def _copies(trace: Trace, ran: Mask, computing: iv.Intervals) -> Iterator[Copies]:
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
            # A copy within the device counts as active.
            exposed=0 if direction == DEVICE_TO_DEVICE else iv.total(iv.difference(covered, computing)),
        )


def _by_stream(trace: Trace, chosen: Mask) -> Iterator[tuple[int, Integers]]:
    """The chosen rows of each stream."""
    rows = np.flatnonzero(chosen)
    for stream, at in rows_by_value(trace.device.stream[rows]).items():
        yield stream, rows[at]


def _stream_use(trace: Trace, stream: int, rows: Integers) -> StreamUse:
    work = trace.device
    kernels, copies = int(work.kernels[rows].sum()), int(work.copies[rows].sum())
    return StreamUse(stream=stream, kernels=kernels, copies=copies, busy=iv.total(work.intervals(rows)))


def _launched_before(trace: Trace, ran: Mask, rows: Integers) -> int:
    work = trace.device
    launched = np.flatnonzero(ran & (work.call >= 0))
    window = np.searchsorted(rows[:, 1], work.start[launched], side="right") - 1
    # The step began before its window where the previous window reaches into it.
    begun = trace.steps.start[rows[np.maximum(window, 0), 3]]
    return int((trace.calls.start[work.call[launched]] < begun).sum())
