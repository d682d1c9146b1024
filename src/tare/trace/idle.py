"""Why the device was idle: every gap of the device (not of a stream) divided into causes, to the nanosecond.

A gap ends with a piece of device work that a runtime call launched. From the end of that call on, the device
itself waited. During the call, the cause is the call. Before it, the cause is what the launching thread did:
waiting for the device, allocating, dispatching an operator, loading data, or running Python. A gap that ends with
its window is the tail.
"""

import re

import msgspec
import numpy as np

from tare.trace import intervals as iv
from tare.trace.host import (
    CALL,
    CAUSES,
    DISPATCH,
    LOADING,
    MODULE_PREFIX,
    PYTHON,
    TAIL,
    WAITING,
    HostEvents,
)
from tare.trace.intervals import Integers, Mask, distinct
from tare.trace.nesting import NO_OWNER, clip_to_parents, flatten
from tare.trace.tables import Trace
from tare.trace.windows import main_device, windows

MOST_PLACES = 12
MOST_GAPS = 10
UNKNOWN_PLACE = "not known (no stack was recorded)"
_BUILTIN = re.compile(r"<built-in (?:method|function) ?(?P<name>\S*?)(?: of .*)?>")


class IdlePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where idle time comes from, as exactly as the profiler knows: a line, a module, an operator."""

    where: str
    idle: int
    gaps: int


class IdleCause(msgspec.Struct, frozen=True, kw_only=True):
    cause: str
    idle: int
    places: list[IdlePlace]


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """One gap: its start after the first window's start, its length, and its largest cause."""

    at: int
    idle: int
    cause: str
    where: str


class IdleTime(msgspec.Struct, frozen=True, kw_only=True):
    """`idle` is the sum over `causes`, which are always all of them, in the order of CAUSES."""

    idle: int
    gaps: int
    causes: list[IdleCause]
    longest: list[Gap]


class GapSegments:
    """Segments of gaps, as one array with a row per column, so that selecting segments is one numpy operation.

    `host` and `frame` are rows of HostEvents and Trace.frames, and `call` is the call that ended the gap; -1 for
    none.
    """

    COLUMNS = ("gap", "start", "end", "cause", "thread", "host", "frame", "call")
    gap: Integers
    start: Integers
    end: Integers
    cause: Integers
    thread: Integers
    host: Integers
    frame: Integers
    call: Integers

    def __init__(self, table: Integers) -> None:
        self.table = table
        for name, column in zip(self.COLUMNS, table, strict=True):
            setattr(self, name, column)

    def __len__(self) -> int:
        return len(self.gap)

    @property
    def length(self) -> Integers:
        return self.end - self.start

    def take(self, rows: Integers | Mask, **columns: Integers | int) -> "GapSegments":
        """These segments only, with these columns replaced."""
        table = self.table.take(np.flatnonzero(rows) if rows.dtype == bool else rows, axis=1)
        for name, column in columns.items():
            table[self.COLUMNS.index(name)] = column
        return GapSegments(table)


def explain_idle(trace: Trace) -> IdleTime | None:
    """The causes of the main device's idle time in the windows; None for a trace without device work."""
    device = main_device(trace)
    if device is None:
        return None
    host, rows = HostEvents(trace), windows(trace, device)
    gaps, segments = cut_gaps(trace, device, rows, host)
    texts, where = describe(trace, host, segments)
    return IdleTime(
        idle=int(segments.length.sum()),
        gaps=len(gaps),
        causes=_causes(segments, texts, where),
        longest=_longest(gaps, segments, texts, where, begin=int(rows[0, 1])),
    )


def cut_gaps(trace: Trace, device: int, rows: Integers, host: HostEvents) -> tuple[Integers, GapSegments]:
    """The gaps of a device in its windows as rows (start, end), and their segments."""
    gaps, is_tail = _find_gaps(trace, device, rows)
    stepping = int(trace.steps.thread[0]) if len(trace.steps) else -1
    if stepping < 0 and len(host.thread):
        stepping = int(np.bincount(host.thread).argmax())
    call = np.where(is_tail, -1, _launching_call(trace, device, gaps[:, 1]))
    begun, returned = gaps[:, 1].copy(), gaps[:, 1].copy()
    thread = np.full(len(gaps), stepping)
    launched = call >= 0
    for column, values in ((begun, trace.calls.start), (returned, trace.calls.end), (thread, trace.calls.thread)):
        column[launched] = values[call[launched]]
    before = np.clip(begun, gaps[:, 0], gaps[:, 1])
    during = np.clip(returned, before, gaps[:, 1])
    every = GapSegments(np.full((len(GapSegments.COLUMNS), len(gaps)), -1, dtype=np.int64))
    every = every.take(np.arange(len(gaps)), gap=np.arange(len(gaps)), thread=thread, call=call)

    def part(start: Integers, end: Integers, cause: int) -> GapSegments:
        filled = np.flatnonzero(end > start)
        return every.take(filled, start=start[filled], end=end[filled], cause=cause)

    parts = [part(before, during, CALL), part(during, gaps[:, 1], WAITING)]
    parts += _host_segments(trace, host, part(gaps[:, 0], before, PYTHON), stepping)
    segments = GapSegments(np.concatenate([part.table for part in parts], axis=1))
    segments.cause[is_tail[segments.gap]] = TAIL
    return gaps, segments


def _find_gaps(trace: Trace, device: int, rows: Integers) -> tuple[Integers, Mask]:
    """The gaps of a device in its windows, and for each whether it ends with its window."""
    work = trace.device
    busy = work.intervals(work.device == device)
    free = iv.difference(iv.make(rows[:, 1], rows[:, 2]), busy)
    # Windows that touch were merged: a gap across their boundary becomes two.
    cuts = rows[:, 2]
    first = np.searchsorted(cuts, free[:, 0], side="right")
    last = np.searchsorted(cuts, free[:, 1], side="left")
    counts = last - first + 1
    gap = np.repeat(np.arange(len(free)), counts)
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    limit = np.append(cuts, np.iinfo(np.int64).max)
    start = np.where(offset == 0, free[gap, 0], limit[np.maximum(first[gap] + offset - 1, 0)])
    end = np.minimum(limit[np.minimum(first[gap] + offset, len(cuts))], free[gap, 1])
    filled = end > start
    gaps = np.stack([start[filled], end[filled]], axis=1)
    return gaps, limit[np.searchsorted(cuts, gaps[:, 1])] == gaps[:, 1]


def _launching_call(trace: Trace, device: int, ends: Integers) -> Integers:
    """The call that launched the device work which begins at each moment, or -1."""
    work = trace.device
    rows = np.flatnonzero(work.device == device)
    at = rows[np.minimum(np.searchsorted(work.start[rows], ends), len(rows) - 1)]
    return np.where(work.start[at] == ends, work.call[at], -1)


def _host_segments(trace: Trace, host: HostEvents, segments: GapSegments, stepping: int) -> list[GapSegments]:
    """What the host did in these segments: first the launching thread, then the thread that runs the steps."""
    explained: list[GapSegments] = []
    outside: list[GapSegments] = []
    for thread in distinct(segments.thread).tolist():
        inside, free = _cut_at_events(host, segments.take(segments.thread == thread), thread)
        explained.append(inside)
        if thread != stepping:
            # The thread ran operators after the stepping thread's last event: it is autograd's engine, and busy.
            engine = host.latest_end(thread, free.start) > host.latest_end(stepping, free.start)
            explained.append(free.take(engine, cause=DISPATCH))
            inside, free = _cut_at_events(host, free.take(~engine, thread=stepping), stepping)
            explained.append(inside)
        outside.append(free)
    if trace.has_stacks:
        outside = [_cut_at_frames(trace, host, part, stepping) for part in outside]
    return explained + outside


def _cut_at_events(host: HostEvents, segments: GapSegments, thread: int) -> tuple[GapSegments, GapSegments]:
    """The segments cut where the thread's innermost event changes: those in an event, with its cause; the rest."""
    span, start, end, owner = host.cause_timeline(thread).cut(segments.start, segments.end)
    inside, outside = np.flatnonzero(owner != NO_OWNER), np.flatnonzero(owner == NO_OWNER)
    event = owner[inside]
    return (
        segments.take(span[inside], start=start[inside], end=end[inside], cause=host.cause[event], host=event),
        segments.take(span[outside], start=start[outside], end=end[outside], cause=PYTHON, host=NO_OWNER),
    )


def _cut_at_frames(trace: Trace, host: HostEvents, segments: GapSegments, stepping: int) -> GapSegments:
    """Segments outside any operator, cut at the Python frames of the stepping thread."""
    frames = trace.frames
    rows = np.flatnonzero(frames.thread == stepping)
    timeline = flatten(rows, frames.start, clip_to_parents(frames.end, frames.parent), frames.parent)
    span, start, end, owner = timeline.cut(segments.start, segments.end)
    cut = segments.take(span, start=start, end=end, frame=owner)
    cut.cause[(owner >= 0) & (host.frames.loading[np.maximum(owner, 0)] >= 0)] = LOADING
    return cut


def _causes(segments: GapSegments, texts: list[str], where: Integers) -> list[IdleCause]:
    # A pair of cause and place is one number; combined with the gap's number, each gap counts once.
    places, gaps = len(texts), int(segments.gap.max(initial=0)) + 1
    pair = segments.cause * places + where
    times = np.zeros(len(CAUSES) * places, dtype=np.int64)
    np.add.at(times, pair, segments.length)
    pairs, gap = np.divmod(distinct(pair * gaps + segments.gap), gaps)
    counts = np.bincount(pairs, minlength=len(times)).reshape(len(CAUSES), places)
    causes = []
    for number, (idle, count) in enumerate(zip(times.reshape(len(CAUSES), places), counts, strict=True)):
        ranked = np.argsort(-idle, kind="stable")[: np.count_nonzero(count)]
        listed = [IdlePlace(where=texts[i], idle=int(idle[i]), gaps=int(count[i])) for i in ranked[:MOST_PLACES]]
        rest = ranked[MOST_PLACES:]
        if len(rest):
            rest_gaps = len(distinct(gap[np.isin(pairs, number * places + rest)]))
            listed.append(IdlePlace(where=f"{len(rest)} other places", idle=int(idle[rest].sum()), gaps=rest_gaps))
        causes.append(IdleCause(cause=CAUSES[number], idle=int(idle.sum()), places=listed))
    return causes


def _longest(gaps: Integers, segments: GapSegments, texts: list[str], where: Integers, begin: int) -> list[Gap]:
    length = gaps[:, 1] - gaps[:, 0]
    longest = []
    for gap in np.argsort(-length, kind="stable")[:MOST_GAPS].tolist():
        rows = np.flatnonzero(segments.gap == gap)
        by_cause = np.bincount(segments.cause[rows], weights=segments.length[rows], minlength=len(CAUSES))
        cause = int(by_cause.argmax())
        rows = rows[segments.cause[rows] == cause]
        place = texts[int(where[rows[segments.length[rows].argmax()]])]
        longest.append(Gap(at=int(gaps[gap, 0]) - begin, idle=int(length[gap]), cause=CAUSES[cause], where=place))
    return longest


def describe(trace: Trace, host: HostEvents, segments: GapSegments) -> tuple[list[str], Integers]:
    """The places of segments: texts, and for each segment the index of its text.

    A place is the user's line and the module where stacks were recorded, and the outermost operator. A segment of
    Python outside any operator has the innermost frame instead, or else the operator that followed.
    """
    columns = np.full((5, len(segments)), -1, dtype=np.int64)
    operator, line, module, frame_name, following = columns
    operator[:] = _operator_names(trace, host, segments)
    unnamed = (operator < 0) & (segments.call >= 0)
    if trace.has_stacks:
        frame = _frames(trace, host, segments)
        names = trace.frames.name
        for column, nearest in ((line, host.frames.line), (module, host.frames.module)):
            rows = np.where(frame >= 0, nearest[np.maximum(frame, 0)], -1)
            column[:] = np.where(rows >= 0, names[np.maximum(rows, 0)], -1)
        frame_name[:] = np.where((operator < 0) & (frame >= 0), names[np.maximum(frame, 0)], -1)
        unnamed &= frame < 0
    following[unnamed] = _outermost_operator_name(trace, segments.call[unnamed])
    first, code = _distinct_columns(columns)
    return [_place_text(trace, *columns[:, row].tolist()) for row in first.tolist()], code


def _distinct_columns(columns: Integers) -> tuple[Integers, Integers]:
    """The index of one column of each kind, and the kind of each column. Much faster than np.unique(axis=1)."""
    first, code = np.arange(min(1, columns.shape[1])), np.zeros(columns.shape[1], dtype=np.int64)
    bound = int(columns.max(initial=0)) + 2
    for row in columns:
        if len(row) and row.min() != row.max():
            _, first, code = np.unique(code * bound + row + 1, return_index=True, return_inverse=True)
    return first, code


def _place_text(trace: Trace, operator: int, line: int, module: int, frame: int, following: int) -> str:
    names = trace.names
    parts = [names[line]] if line >= 0 else []
    if module >= 0:
        parts.append(names[module].removeprefix(MODULE_PREFIX))
    if operator >= 0:
        parts.append(names[operator])
    elif frame >= 0 and frame not in (line, module):
        # A builtin's address differs from process to process.
        builtin = _BUILTIN.fullmatch(names[frame])
        parts.append(f"built-in {builtin['name'] or 'function'}" if builtin else names[frame])
    if parts:
        return " · ".join(parts)
    return f"before {names[following]}" if following >= 0 else UNKNOWN_PLACE


def _operator_names(trace: Trace, host: HostEvents, segments: GapSegments) -> Integers:
    """The name of the outermost operator around each segment's event, or around the call that ended the gap."""
    names = np.full(len(segments), -1, dtype=np.int64)
    inside = segments.host >= 0
    names[inside] = host.name[host.top[segments.host[inside]]]
    called = ~inside & _is_after_call(trace, segments)
    names[called] = _outermost_operator_name(trace, segments.call[called])
    return names


def _outermost_operator_name(trace: Trace, call: Integers) -> Integers:
    """The name of the outermost operator around each call, or of the call itself."""
    operators = trace.operators
    row = trace.calls.operator[call]
    if len(operators) == 0:
        return trace.calls.name[call]
    while True:
        above = np.where(row >= 0, operators.parent[np.maximum(row, 0)], -1)
        if not (above >= 0).any():
            return np.where(row >= 0, operators.name[np.maximum(row, 0)], trace.calls.name[call])
        row = np.where(above >= 0, above, row)


def _is_after_call(trace: Trace, segments: GapSegments) -> Mask:
    """Which segments lie in or after the call that ended their gap."""
    after = np.greater_equal(segments.call, 0)
    after[after] = segments.start[after] >= trace.calls.start[segments.call[after]]
    return after


def _frames(trace: Trace, host: HostEvents, segments: GapSegments) -> Integers:
    """The innermost frame of each segment; on autograd's threads the frame of the matching forward operator."""
    at = segments.start.copy()
    after = _is_after_call(trace, segments)
    at[after] = trace.calls.start[segments.call[after]]
    frame = np.where(segments.frame >= 0, segments.frame, host.frames.frame_at(segments.thread, at))
    missing = np.flatnonzero(frame < 0)
    event, call = segments.host[missing], segments.call[missing]
    operator = np.full(len(missing), -1, dtype=np.int64)
    operator[event >= 0] = host.operator[event[event >= 0]]
    called = (operator < 0) & (call >= 0)
    operator[called] = trace.calls.operator[call[called]]
    frames = {row: host.frames.forward_frame(row) for row in np.unique(operator).tolist()}
    frame[missing] = [frames[row] for row in operator.tolist()]
    return frame
