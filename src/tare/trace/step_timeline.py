"""One step of a trace as a picture shows it: what the device, its streams and the host's threads did when, and why
the device waited."""

from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from tare.trace.collective_names import is_collective
from tare.trace.host import CAUSES, HostEvents, host_events
from tare.trace.idle import cut_gaps
from tare.trace.intervals import Integers, Mask
from tare.trace.tables import COPY, KERNEL, Trace
from tare.trace.windows import main_device, select_steps, windows

# More spans make a page slow; the shortest are left out.
MOST_SPANS = 4000
# Operators are nested deeper than helps to see where a step goes.
DEEPEST = 3
MOST_THREADS = 4

TrackKind = Literal["idle", "stream", "thread"]


class TimelineSpan(msgspec.Struct, frozen=True, array_like=True):
    """In ns from the beginning of the step. `group` is a kind of work, or a cause of idle time."""

    start: int
    duration: int
    name: str
    group: str


class TimelineTrack(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: TrackKind
    spans: list[TimelineSpan]


class StepTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """The step of median length. `hidden` spans were too short to be shown, none longer than `longest_hidden`."""

    step: int
    length: int
    tracks: list[TimelineTrack]
    hidden: int = 0
    longest_hidden: int = 0


def step_timeline(trace: Trace) -> StepTimeline | None:
    """None for a trace without a step."""
    trace = select_steps(trace)
    device = main_device(trace)
    rows = windows(trace, device)
    rows = rows[rows[:, 2] > rows[:, 1]]
    if not len(rows):
        return None
    middle = np.argsort(rows[:, 2] - rows[:, 1], kind="stable")[len(rows) // 2]
    row = rows[middle : middle + 1]
    begin, end = int(row[0, 1]), int(row[0, 2])
    host = host_events(trace)
    tracks = [*_device_tracks(trace, device, row, host), *_threads(trace, host, begin, end)]
    return _bounded(StepTimeline(step=int(row[0, 0]), length=end - begin, tracks=tracks))


def _device_tracks(trace: Trace, device: int | None, row: Integers, host: HostEvents) -> Iterator[TimelineTrack]:
    if device is None:
        return
    begin, end = int(row[0, 1]), int(row[0, 2])
    _, segments = cut_gaps(trace, device, row, host)
    segments = segments[np.lexsort((segments["start"],))]
    idle: list[TimelineSpan] = []
    for segment in segments:
        cause, start = CAUSES[int(segment["cause"])], int(segment["start"]) - begin
        length = int(segment["end"] - segment["start"])
        last = idle[-1] if idle else None
        if last and last.group == cause and last.start + last.duration == start:
            idle[-1] = TimelineSpan(last.start, last.duration + length, cause, cause)
        elif length:
            idle.append(TimelineSpan(start, length, cause, cause))
    yield TimelineTrack(name="idle, and why", kind="idle", spans=idle)
    work = trace.device
    inside = (work.device == device) & (work.start < end) & (work.end > begin)
    for stream in np.unique(work.stream[inside]).tolist():
        chosen = np.flatnonzero(inside & (work.stream == stream))
        spans = [
            TimelineSpan(
                max(int(work.start[at]), begin) - begin,
                int(min(work.end[at], end) - max(work.start[at], begin)),
                trace.name(work, at),
                _kind_of_work(int(work.kind[at]), trace.name(work, at)),
            )
            for at in chosen.tolist()
        ]
        yield TimelineTrack(name=f"stream {stream}", kind="stream", spans=spans)


def _kind_of_work(kind: int, name: str) -> str:
    if kind == KERNEL:
        return "communicating" if is_collective(name) else "computing"
    return "moving" if kind == COPY else "setting memory"


def _threads(trace: Trace, host: HostEvents, begin: int, end: int) -> Iterator[TimelineTrack]:
    """The threads that did most, the one of the steps first, each with a track for every depth."""
    inside: Mask = (host.start < end) & (host.end > begin) & (host.depth < DEEPEST)
    threads, counts = np.unique(host.thread[inside], return_counts=True)
    ranked = [int(threads[at]) for at in np.argsort(-counts, kind="stable")[:MOST_THREADS]]
    ranked.sort(key=lambda thread: thread != host.stepping_thread)
    for thread in ranked:
        for depth in range(DEEPEST):
            chosen = np.flatnonzero(inside & (host.thread == thread) & (host.depth == depth))
            spans = [
                TimelineSpan(
                    max(int(host.start[at]), begin) - begin,
                    int(min(host.end[at], end) - max(host.start[at], begin)),
                    trace.name(host, at),
                    CAUSES[int(host.cause[at])],
                )
                for at in chosen.tolist()
            ]
            if spans:
                name = (
                    str(trace.threads[thread]).rpartition("/")[2] if thread < len(trace.threads) else str(thread)
                )
                yield TimelineTrack(name=f"thread {name}, level {depth + 1}", kind="thread", spans=spans)


def _bounded(timeline: StepTimeline) -> StepTimeline:
    """Without the shortest spans, if there are too many."""
    durations = sorted((span.duration for track in timeline.tracks for span in track.spans), reverse=True)
    if len(durations) <= MOST_SPANS:
        return timeline
    shortest = durations[MOST_SPANS - 1]
    tracks = [
        msgspec.structs.replace(track, spans=[span for span in track.spans if span.duration > shortest])
        for track in timeline.tracks
    ]
    hidden = len(durations) - sum(len(track.spans) for track in tracks)
    return msgspec.structs.replace(timeline, tracks=tracks, hidden=hidden, longest_hidden=shortest)
