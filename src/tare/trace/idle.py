"""Why the device was idle: every gap of the device (not of a stream) divided into causes, to the nanosecond.

A gap ends with a piece of device work that a runtime call launched. From the end of that call on, the device
itself waited: for longer than a launch can take, for something that the trace does not show. During the call,
the cause is the call. Before it, the cause is what the launching thread did:
waiting for the device, allocating, dispatching an operator, loading data, or running Python. A gap that ends
with its window is the tail.
"""

import re

import msgspec
import numpy as np
import numpy.typing as npt

from tare.trace import intervals as iv
from tare.trace.host import (
    BEFORE,
    CALL,
    CAUSES,
    DISPATCH,
    HOST_WAIT,
    LOADING,
    PYTHON,
    TAIL,
    UNKNOWN,
    USUAL_CAUSES,
    WAITING,
    HostEvents,
    host_events,
)
from tare.trace.intervals import Integers, Mask, distinct
from tare.trace.names import MODULE_PREFIX
from tare.trace.spans import BEGINNING, NO_OWNER, Timeline, pick, sum_by
from tare.trace.tables import GRAPH, Trace
from tare.trace.windows import main_device, windows

MOST_PLACES = 12
MOST_GAPS = 10
# From the return of a call to the start of its work on an idle device (ns): a kernel takes microseconds, a
# graph of thousands of kernels milliseconds. Beyond that the work waited for something else.
LONGEST_LAUNCH, LONGEST_GRAPH_LAUNCH = 1_000_000, 10_000_000
# A host that waits for less is in the middle of its work (ns).
SHORTEST_HOST_WAIT = 1_000_000
UNKNOWN_PLACE = "not known (no stack was recorded)"
# A segment of a gap. `host` and `frame` are rows of HostEvents and Trace.frames, and `call` is the call that
# ended the gap; -1 for none.
SEGMENT = np.dtype(
    [(name, np.int64) for name in ("gap", "start", "end", "cause", "thread", "host", "frame", "call")]
)
Segments = npt.NDArray[np.void]
# What a thread calls to wait for another thread, a queue, or a socket. Loaders have a cause of their own.
_HOST_WAIT = re.compile(
    r"<built-in method (?:acquire|poll|select|epoll|kqueue|recv\w*|accept|sleep|wait|get) of|"
    r"<built-in (?:method|function) (?:sleep|select|poll)\b|<method '(?:poll|acquire|recv\w*|accept|get)' of"
)
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
    """`idle` is the sum over `causes`, in the order of CAUSES: always the usual ones, the others if they
    occur."""

    idle: int
    gaps: int
    causes: list[IdleCause]
    longest: list[Gap]


def is_host_wait(frame: str) -> bool:
    """Whether a frame of this name waits for another thread, a queue or a socket."""
    return bool(_HOST_WAIT.search(frame))


def host_waits(trace: Trace) -> iv.Intervals:
    """Where a thread that launches waits for another thread, a queue or a socket for long."""
    frames, calls = trace.frames, trace.calls
    launching = np.isin(frames.thread, calls.thread[calls.launches])
    long = frames.duration >= SHORTEST_HOST_WAIT
    return frames.intervals(launching & long & trace.matching(frames, is_host_wait))


def explain_idle(trace: Trace) -> IdleTime | None:
    """The causes of the main device's idle time in the windows; None for a trace without device work."""
    device = main_device(trace)
    if device is None:
        return None
    host, rows = host_events(trace), windows(trace, device)
    gaps, segments = cut_gaps(trace, device, rows, host)
    texts, where = describe(trace, host, segments)
    return IdleTime(
        idle=int(lengths(segments).sum()),
        gaps=len(gaps),
        causes=_causes(segments, texts, where),
        longest=_longest(gaps, segments, texts, where, begin=int(rows[0, 1])),
    )


def cut_gaps(trace: Trace, device: int, rows: Integers, host: HostEvents) -> tuple[Integers, Segments]:
    """The gaps of a device in its windows as rows (start, end), and their segments."""
    gaps, is_tail = _find_gaps(trace, device, rows)
    start, end = gaps.T
    call = np.where(is_tail, -1, _launching_call(trace, device, end))
    launched = call >= 0
    segments = np.full(len(gaps), -1, dtype=SEGMENT)
    segments["gap"], segments["call"] = np.arange(len(gaps)), call
    segments["thread"] = np.where(launched, pick(trace.calls.thread, call), host.stepping_thread)
    begun = np.clip(np.where(launched, pick(trace.calls.start, call), end), start, end)
    returned = np.clip(np.where(launched, pick(trace.calls.end, call), end), begun, end)
    parts = [
        _take(segments, from_ < to, start=from_, end=to, cause=cause)
        for from_, to, cause in ((start, begun, PYTHON), (begun, returned, CALL), (returned, end, WAITING))
    ]
    waiting = parts[2]
    waiting["cause"] = _device_side_cause(trace, device, waiting)
    segments = np.concatenate([*_host_segments(trace, host, parts[0]), *parts[1:]])
    if not len(host) and not len(trace.frames):
        # The host was not recorded: it need not have run Python.
        segments["cause"][segments["cause"] == PYTHON] = UNKNOWN
    segments["cause"][is_tail[segments["gap"]]] = TAIL
    return gaps, segments


def _device_side_cause(trace: Trace, device: int, segments: Segments) -> Integers:
    """Why work that had been launched did not start at once."""
    graph = pick(trace.calls.kind, segments["call"]) == GRAPH
    long = lengths(segments) > np.where(graph, LONGEST_GRAPH_LAUNCH, LONGEST_LAUNCH)
    # Before its first recorded work the device may have been busy with what the profiler did not record.
    first = trace.device.start[trace.device.device == device].min(initial=np.iinfo(np.int64).max)
    return np.where(long, np.where(segments["end"] <= first, BEFORE, UNKNOWN), WAITING)


def lengths(segments: Segments) -> Integers:
    length: Integers = segments["end"] - segments["start"]
    return length


def _take(segments: Segments, rows: Integers | Mask, **columns: Integers | int) -> Segments:
    """These segments only, with these columns, of which the rows are taken too, replaced."""
    chosen = segments[rows]
    for name, column in columns.items():
        chosen[name] = column[rows] if isinstance(column, np.ndarray) else column
    return chosen


def _find_gaps(trace: Trace, device: int, rows: Integers) -> tuple[Integers, Mask]:
    """The gaps of a device in its windows, and for each whether it ends with its window."""
    busy = trace.device.intervals(trace.device.device == device)
    free, ends = iv.difference(iv.make(rows[:, 1], rows[:, 2]), busy), rows[:, 2]
    # Windows that touch were merged: a gap across their boundary becomes two.
    _, start, end, _ = Timeline(np.append(BEGINNING, ends), np.arange(len(ends) + 1)).cut(*free.T)
    return np.stack([start, end], axis=1), np.isin(end, ends)


def _launching_call(trace: Trace, device: int, ends: Integers) -> Integers:
    """The call that launched the device work which begins at each moment, or -1."""
    work = trace.device
    rows = np.flatnonzero(work.device == device)
    at = rows[np.minimum(np.searchsorted(work.start[rows], ends), len(rows) - 1)]
    return np.where(work.start[at] == ends, work.call[at], -1)


def _host_segments(trace: Trace, host: HostEvents, segments: Segments) -> list[Segments]:
    """What the host did in these segments: first the launching thread, then the thread that runs the steps."""
    stepping = host.stepping_thread
    threads = distinct(segments["thread"]).tolist()
    timelines = {thread: _cause_timeline(trace, host, thread) for thread in {*threads, stepping}}
    explained: list[Segments] = []
    outside: list[Segments] = []
    for thread in threads:
        inside, free = _cut_at_events(host, segments[segments["thread"] == thread], timelines[thread])
        explained.append(inside)
        if thread != stepping:
            # The thread ran operators after the stepping thread's last event: it is autograd's engine, and busy.
            engine = _latest_end(host, thread, free["start"]) > _latest_end(host, stepping, free["start"])
            explained.append(_take(free, engine, cause=DISPATCH))
            inside, free = _cut_at_events(host, _take(free, ~engine, thread=stepping), timelines[stepping])
            explained.append(inside)
        outside.append(free)
    return explained + [_cut_at_frames(trace, part, stepping) for part in outside]


def _cause_timeline(trace: Trace, host: HostEvents, thread: int) -> Timeline:
    """The timeline as far as causes differ. Without stacks an event is located by its outermost operator, so
    neighbours with the same outermost operator and cause are merged."""
    timeline = host.timeline(thread)
    if trace.has_stacks:
        return timeline
    kind = pick(host.top * len(CAUSES) + host.cause, timeline.owner)
    first = np.flatnonzero(np.diff(kind, prepend=BEGINNING))
    return Timeline(timeline.start[first], timeline.owner[first])


def _latest_end(host: HostEvents, thread: int, at: Integers) -> Integers:
    """For each moment, the latest end of the thread's events that began before it."""
    rows = host.rows_by_thread.get(thread, np.empty(0, dtype=np.int64))
    reached = np.maximum.accumulate(np.append(BEGINNING, host.end[rows]))
    return reached[np.searchsorted(host.start[rows], at)]


def _cut_at_events(host: HostEvents, segments: Segments, timeline: Timeline) -> tuple[Segments, Segments]:
    """The segments cut where the thread's innermost event changes: those in an event, with its cause; the
    rest."""
    span, start, end, owner = timeline.cut(segments["start"], segments["end"])
    cut, inside = segments[span], owner != NO_OWNER
    columns = {"start": start, "end": end, "host": owner}
    return (
        _take(cut, inside, cause=pick(host.cause, owner), **columns),
        _take(cut, ~inside, cause=PYTHON, **columns),
    )


def _cut_at_frames(trace: Trace, segments: Segments, stepping: int) -> Segments:
    """Segments outside any operator, cut at the Python frames of the stepping thread."""
    span, start, end, owner = trace.frames.timeline(stepping).cut(segments["start"], segments["end"])
    cut = segments[span]
    cut["start"], cut["end"], cut["frame"] = start, end, owner
    waits = pick(trace.matching(trace.frames, is_host_wait).astype(np.int64), owner) > 0
    cut["cause"][waits & (end - start >= SHORTEST_HOST_WAIT)] = HOST_WAIT
    cut["cause"][pick(trace.frames.loader, owner) >= 0] = LOADING
    return cut


def _causes(segments: Segments, texts: list[str], where: Integers) -> list[IdleCause]:
    # A pair of cause and place is one number; combined with the gap's number, each gap counts once.
    places, gaps = len(texts), int(segments["gap"].max(initial=0)) + 1
    pair = segments["cause"] * places + where
    times = sum_by(pair, lengths(segments), len(CAUSES) * places)
    pairs, gap = np.divmod(distinct(pair * gaps + segments["gap"]), gaps)
    counts = np.bincount(pairs, minlength=len(times)).reshape(len(CAUSES), places)
    causes = []
    for number, (idle, count) in enumerate(zip(times.reshape(len(CAUSES), places), counts, strict=True)):
        ranked = np.argsort(-idle, kind="stable")[: np.count_nonzero(count)]
        listed = [IdlePlace(where=texts[i], idle=int(idle[i]), gaps=int(count[i])) for i in ranked[:MOST_PLACES]]
        rest = ranked[MOST_PLACES:]
        if len(rest):
            rest_gaps = len(distinct(gap[np.isin(pairs, number * places + rest)]))
            listed.append(IdlePlace(where=f"{len(rest)} other places", idle=int(idle[rest].sum()), gaps=rest_gaps))
        if listed or number < len(USUAL_CAUSES):
            causes.append(IdleCause(cause=CAUSES[number], idle=int(idle.sum()), places=listed))
    return causes


def _longest(gaps: Integers, segments: Segments, texts: list[str], where: Integers, begin: int) -> list[Gap]:
    length, gap_of = gaps[:, 1] - gaps[:, 0], segments["gap"].copy()
    longest = []
    for gap in np.argsort(-length, kind="stable")[:MOST_GAPS].tolist():
        rows = np.flatnonzero(gap_of == gap)
        cause = int(sum_by(segments["cause"][rows], lengths(segments[rows]), len(CAUSES)).argmax())
        rows = rows[segments["cause"][rows] == cause]
        place = int(sum_by(where[rows], lengths(segments[rows]), len(texts)).argmax())
        at = int(gaps[gap, 0]) - begin
        longest.append(Gap(at=at, idle=int(length[gap]), cause=CAUSES[cause], where=texts[place]))
    return longest


def describe(trace: Trace, host: HostEvents, segments: Segments) -> tuple[list[str], Integers]:
    """The places of segments: texts, and for each segment the index of its text.

    A place is the user's line and the module where stacks were recorded, and the outermost operator. A segment
    of Python outside any operator has the innermost frame instead, or else the operator that followed.
    """
    operators, frames, calls = trace.operators, trace.frames, trace.calls
    event, call = segments["host"], segments["call"]
    # In and after the call that ended the gap, the place is that of the call.
    called = (call >= 0) & (segments["start"] >= pick(calls.start, call))
    launcher = pick(operators.name, pick(operators.top, pick(calls.operator, call)))
    launcher = np.where(launcher >= 0, launcher, pick(calls.name, call))
    operator = np.where(event >= 0, pick(host.name, pick(host.top, event)), np.where(called, launcher, -1))
    moment = np.where(called, pick(calls.start, call), segments["start"])
    frame = np.where(segments["frame"] >= 0, segments["frame"], frames.innermost(segments["thread"], moment))
    if trace.has_stacks:
        # On autograd's threads the frame is that of the forward operator.
        backward = pick(host.operator, event)
        backward = np.where(backward >= 0, backward, pick(calls.operator, call))
        frame = np.where(frame >= 0, frame, pick(trace.forward_frame, backward))
    line, module = (pick(frames.name, pick(nearest, frame)) for nearest in (frames.line, frames.module))
    inner = np.where(operator < 0, pick(frames.name, frame), -1)
    following = np.where((operator < 0) & (frame < 0), launcher, -1)
    columns = np.stack([operator, line, module, inner, following])
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
