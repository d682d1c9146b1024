"""Why the device was idle: every gap of the device (not of a stream) cut into its causes, to the nanosecond.

A gap ends with a piece of work that some call on some thread launched. After that call had returned, the device
itself waited. During the call, it is the call. Before it, whatever the launching thread was doing: waiting for the
device, allocating, dispatching an operator, loading data, or plain Python. A gap that ends with its window is the
tail.
"""

import msgspec
import numpy as np

from tare.trace import intervals as iv
from tare.trace.columns import distinct
from tare.trace.host import CALL, CAUSES, DISPATCH, LOADING, PYTHON, TAIL, WAITING, Host, host_of
from tare.trace.intervals import Integers
from tare.trace.nesting import enclosed
from tare.trace.pieces import Pieces, join, make
from tare.trace.tables import Mask, Trace
from tare.trace.timeline import NOBODY, flatten
from tare.trace.windows import main_device, windows

MOST_PLACES = 12
MOST_GAPS = 10


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where idle time comes from, as exactly as the profiler knows: a line, a module, an operator."""

    where: str
    idle: int
    gaps: int


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    cause: str
    idle: int
    places: list[Place]


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """One gap: when it began after the first window's start, and its greatest cause."""

    at: int
    idle: int
    cause: str
    where: str


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """`idle` is the sum over `causes`, which are always all of them, in one order."""

    idle: int
    gaps: int
    causes: list[Cause]
    longest: list[Gap]


def find_gaps(trace: Trace, device: int, rows: Integers) -> tuple[Integers, Mask]:
    """The gaps of a device in its windows, (start, end) a row, and for each whether it is its window's tail."""
    work = trace.device
    busy = work.intervals(work.device == device)
    free = iv.difference(iv.make(rows[:, 1], rows[:, 2]), busy)
    # Windows that touch have become one interval: a gap across a boundary is two.
    cuts = rows[:, 2]
    first = np.searchsorted(cuts, free[:, 0], side="right")
    last = np.searchsorted(cuts, free[:, 1], side="left")
    counts = last - first + 1
    gap = np.repeat(np.arange(len(free)), counts)
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    limit = np.append(cuts, np.iinfo(np.int64).max)
    start = np.where(offset == 0, free[gap, 0], limit[np.maximum(first[gap] + offset - 1, 0)])
    end = np.minimum(limit[np.minimum(first[gap] + offset, len(cuts))], free[gap, 1])
    kept = end > start
    found = np.stack([start[kept], end[kept]], axis=1)
    return found, limit[np.searchsorted(cuts, found[:, 1])] == found[:, 1]


def cut_gaps(trace: Trace, device: int, rows: Integers, host: Host) -> tuple[Integers, Pieces]:
    """The gaps of a device in its windows, and their pieces."""
    gaps, tail = find_gaps(trace, device, rows)
    call = np.where(tail, -1, _launching(trace, device, gaps[:, 1]))
    known = call >= 0
    at = np.maximum(call, 0)
    calls = trace.calls
    begun = np.where(known, calls.start[at], gaps[:, 1]) if len(calls) else gaps[:, 1]
    returned = np.where(known, calls.end[at], gaps[:, 1]) if len(calls) else gaps[:, 1]
    stepping = int(trace.steps.thread[0]) if len(trace.steps) else -1
    if stepping < 0:
        stepping = _busiest(host)
    thread: Integers | int = np.where(known, calls.thread[at], stepping) if len(calls) else stepping
    before = np.clip(begun, gaps[:, 0], gaps[:, 1])
    during = np.clip(returned, before, gaps[:, 1])
    whole = make(len(gaps), gap=np.arange(len(gaps)), thread=thread, call=call)

    def part(start: Integers, end: Integers, cause: int) -> Pieces:
        rows = np.flatnonzero(end > start)
        return whole.take(rows, start=start[rows], end=end[rows], cause=cause)

    called, waited = part(before, during, CALL), part(during, gaps[:, 1], WAITING)
    pieces = join(called, waited, *_explain(trace, host, part(gaps[:, 0], before, PYTHON), stepping))
    pieces.cause[tail[pieces.gap]] = TAIL
    return gaps, pieces


def _explain(trace: Trace, host: Host, pieces: Pieces, stepping: int) -> list[Pieces]:
    """What the host did in these pieces: the launching thread first, then the thread that runs the steps."""
    done: list[Pieces] = []
    alone: list[Pieces] = []
    for thread in distinct(pieces.thread).tolist():
        mine, free = cut(host, pieces.take(pieces.thread == thread), thread)
        done.append(mine)
        if thread != stepping:
            # Since the stepping thread's last event this one has run operators: its own engine (autograd's) works.
            engine = host.latest_end(thread, free.start) > host.latest_end(stepping, free.start)
            done.append(free.take(engine, cause=DISPATCH))
            mine, free = cut(host, free.take(~engine, thread=stepping), stepping)
            done.append(mine)
        alone.append(free)
    if trace.has_stacks:
        alone = [_python(trace, host, part, stepping) for part in alone]
    return done + alone


def cut(host: Host, pieces: Pieces, thread: int) -> tuple[Pieces, Pieces]:
    """The pieces cut where the thread's innermost event changes: those in one, with its cause, and the rest."""
    piece, start, end, owner = host.reasons(thread).cut(pieces.start, pieces.end)
    inside, outside = np.flatnonzero(owner != NOBODY), np.flatnonzero(owner == NOBODY)
    mine = owner[inside]
    return (
        pieces.take(piece[inside], start=start[inside], end=end[inside], cause=host.cause[mine], host=mine),
        pieces.take(piece[outside], start=start[outside], end=end[outside], cause=PYTHON, host=NOBODY),
    )


def _python(trace: Trace, host: Host, pieces: Pieces, stepping: int) -> Pieces:
    """Where no operator runs, the frames say whose Python it is."""
    frames = trace.frames
    mine = np.flatnonzero(frames.thread == stepping)
    line = flatten(mine, frames.start, enclosed(frames.end, frames.parent), frames.parent)
    piece, start, end, owner = line.cut(pieces.start, pieces.end)
    found = pieces.take(piece, start=start, end=end, frame=owner)
    found.cause[(owner >= 0) & (host.places.loading[np.maximum(owner, 0)] >= 0)] = LOADING
    return found


def _launching(trace: Trace, device: int, ends: Integers) -> Integers:
    """The call that launched the work which begins at each moment."""
    work = trace.device
    rows = np.flatnonzero(work.device == device)
    at = rows[np.minimum(np.searchsorted(work.start[rows], ends), len(rows) - 1)]
    return np.where(work.start[at] == ends, work.call[at], -1)


def _busiest(host: Host) -> int:
    return int(np.bincount(host.thread).argmax()) if len(host.thread) else -1


def explain_idle(trace: Trace) -> Idle | None:
    """The causes of the main device's idle time in the windows; None where no device worked."""
    device = main_device(trace)
    if device is None:
        return None
    from tare.trace.places import describe

    host, rows = host_of(trace), windows(trace, device)
    gaps, pieces = cut_gaps(trace, device, rows, host)
    texts, where = describe(trace, host, pieces)
    return Idle(
        idle=int(pieces.length.sum()),
        gaps=len(gaps),
        causes=_causes(pieces, texts, where),
        longest=_longest(gaps, pieces, texts, where, begin=int(rows[0, 1])),
    )


def _causes(pieces: Pieces, texts: list[str], where: Integers) -> list[Cause]:
    # A cause at a place is one number; with the number of the gap in it as well, each gap counts once.
    many, gaps = len(texts), int(pieces.gap.max(initial=0)) + 1
    spot = pieces.cause * many + where
    times = np.zeros(len(CAUSES) * many, dtype=np.int64)
    np.add.at(times, spot, pieces.length)
    pairs = distinct(spot * gaps + pieces.gap)
    spots, gap = np.divmod(pairs, gaps)
    counts = np.bincount(spots, minlength=len(times)).reshape(len(CAUSES), many)
    found = []
    for number, (idle, count) in enumerate(zip(times.reshape(len(CAUSES), many), counts, strict=True)):
        ranked = np.argsort(-idle, kind="stable")[: np.count_nonzero(count)]
        places = [Place(where=texts[i], idle=int(idle[i]), gaps=int(count[i])) for i in ranked[:MOST_PLACES]]
        rest = ranked[MOST_PLACES:]
        if len(rest):
            several = len(distinct(gap[np.isin(spots, number * many + rest)]))
            places.append(Place(where=f"{len(rest)} other places", idle=int(idle[rest].sum()), gaps=several))
        found.append(Cause(cause=CAUSES[number], idle=int(idle.sum()), places=places))
    return found


def _longest(gaps: Integers, pieces: Pieces, texts: list[str], where: Integers, begin: int) -> list[Gap]:
    length = gaps[:, 1] - gaps[:, 0]
    found = []
    for gap in np.argsort(-length, kind="stable")[:MOST_GAPS].tolist():
        rows = np.flatnonzero(pieces.gap == gap)
        by_cause = np.bincount(pieces.cause[rows], weights=pieces.length[rows], minlength=len(CAUSES))
        cause = int(by_cause.argmax())
        of_it = rows[pieces.cause[rows] == cause]
        place = texts[int(where[of_it[pieces.length[of_it].argmax()]])]
        found.append(Gap(at=int(gaps[gap, 0]) - begin, idle=int(length[gap]), cause=CAUSES[cause], where=place))
    return found
