"""What a server of language models does with its time, iteration by iteration: prefills and decodes, how full
their batches are, the time between tokens, and what happens between iterations.

An iteration ends with the device work that it launched, and begins where the host begins it, or where the one
before it ends, if that is later: iterations never overlap. All times are those of the profiled run.
"""

from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from tare.trace import intervals as iv
from tare.trace.idle import SHORTEST_HOST_WAIT, is_host_wait
from tare.trace.intervals import Integers, Intervals
from tare.trace.serving_iterations import SHAPES, Iteration, Iterations, find_iterations
from tare.trace.serving_marks import DECODE, MIXED, PLAIN, PREFILL, UNKNOWN, IterationKind
from tare.trace.tables import Trace
from tare.trace.windows import main_device

KINDS: tuple[IterationKind, ...] = (PREFILL, DECODE, MIXED, UNKNOWN)
# Of more iterations the first are listed; the figures are of all.
MOST_LISTED = 5000


class IterationTime(msgspec.Struct, frozen=True, kw_only=True):
    """`at` is from the beginning of the first one. `busy` is the time in which the device works; None without a
    device. Of the batch, None is not known."""

    at: int
    ns: int
    busy: int | None
    kind: IterationKind
    sequences: int | None
    tokens: int | None


class IterationFigures(msgspec.Struct, frozen=True, kw_only=True):
    """All iterations of one kind. Sequences and tokens are means over the time of those whose batch is known."""

    kind: IterationKind
    count: int
    total: int
    median: int
    p95: int
    busy: int | None
    sequences: float | None
    tokens: float | None


class TokenTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The distances between the ends of consecutive decodes that at least one sequence is in both of; in
    `interrupted` of them a prefill ran between."""

    count: int
    median: int
    p95: int
    p99: int
    longest: int
    interrupted: int


class BetweenIterations(msgspec.Struct, frozen=True, kw_only=True):
    """`total` is the sum of the others: the device works, the host waits (for requests), the host works
    (schedules, samples, answers), and what of the host was not recorded."""

    total: int
    device: int
    waiting: int
    scheduling: int
    unknown: int


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """`window` = the totals of `kinds` and of `between`. The largest batches are those of any iteration."""

    source: str
    window: int
    kinds: list[IterationFigures]
    between: BetweenIterations
    token_times: TokenTimes | None
    largest_sequences: int | None
    largest_tokens: int | None
    iterations: list[IterationTime]
    notes: list[str]


def serving(trace: Trace) -> Serving | None:
    """None for a trace in which no language model generates."""
    found = find_iterations(trace)
    if found is None:
        return None
    work = trace.device
    device = main_device(trace)
    busy = work.intervals(work.device == device) if device is not None else iv.EMPTY
    begin, end = _windows(trace, found.iterations, device)
    length, active = end - begin, iv.covered_length(busy, begin, end)
    listed = [
        IterationTime(
            at=int(begin[i] - begin[0]),
            ns=int(length[i]),
            busy=int(active[i]) if device is not None else None,
            kind=one.batch.kind,
            sequences=one.batch.sequences,
            tokens=one.batch.tokens,
        )
        for i, one in enumerate(found.iterations)
    ]
    gaps = iv.make(end[:-1], begin[1:])
    return Serving(
        source=found.source,
        window=int(end[-1] - begin[0]),
        kinds=[
            _figures(kind, chosen) for kind in KINDS if (chosen := [one for one in listed if one.kind == kind])
        ],
        between=_between(gaps, _pauses(trace, found.thread, gaps, busy)),
        token_times=_token_times(found.iterations, end),
        largest_sequences=max((one.sequences for one in listed if one.sequences), default=None),
        largest_tokens=max((one.tokens for one in listed if one.tokens), default=None),
        iterations=listed[:MOST_LISTED],
        notes=_notes(trace, found, listed),
    )


def _windows(trace: Trace, iterations: list[Iteration], device: int | None) -> tuple[Integers, Integers]:
    start, finish = (np.array([getattr(one, name) for one in iterations]) for name in ("start", "end"))
    end = finish.copy()
    if device is not None:
        work = trace.device
        launched = np.flatnonzero((work.call >= 0) & (work.device == device))
        called = trace.calls.start[work.call[launched]]
        at = np.searchsorted(start, called, side="right") - 1
        inside = (at >= 0) & (called < finish[at])
        reached = np.full(len(start), np.iinfo(np.int64).min)
        np.maximum.at(reached, at[inside], work.end[launched[inside]])
        # The host may go on to prepare the next iteration; one without device work ends with the host.
        end = np.where(reached > start, reached, finish)
    end = np.maximum.accumulate(end)
    begin = np.maximum(start, np.append(start[:1], end[:-1]))
    return begin, np.maximum(begin, end)


def _figures(kind: IterationKind, chosen: list[IterationTime]) -> IterationFigures:
    times = [one.ns for one in chosen]
    return IterationFigures(
        kind=kind,
        count=len(chosen),
        total=sum(times),
        median=round(float(np.median(times))),
        p95=_percentile(times, 95),
        busy=None if chosen[0].busy is None else sum(one.busy or 0 for one in chosen),
        sequences=mean_over_time([(one.ns, one.sequences) for one in chosen]),
        tokens=mean_over_time([(one.ns, one.tokens) for one in chosen]),
    )


def mean_over_time(values: list[tuple[int, int | None]]) -> float | None:
    known = [(ns, value) for ns, value in values if value is not None]
    time = sum(ns for ns, _ in known)
    return sum(ns * value for ns, value in known) / time if time else None


def _percentile(times: list[int], share: float) -> int:
    """One of the values, so that it was seen."""
    return int(np.percentile(times, share, method="higher"))


class _Pauses(NamedTuple):
    """The time between iterations in which the device has nothing to do, by what the host does."""

    waiting: Intervals
    working: Intervals
    unknown: Intervals


def _pauses(trace: Trace, thread: int, gaps: Intervals, busy: Intervals) -> _Pauses:
    """By what the thread of the iterations does."""
    idle = iv.difference(gaps, busy)
    frames, operators, calls = trace.frames, trace.operators, trace.calls
    waits = (frames.thread == thread) & trace.matching(frames, is_host_wait)
    waiting = iv.intersection(idle, frames.intervals(waits & (frames.duration >= SHORTEST_HOST_WAIT)))
    works = (table.intervals(table.thread == thread) for table in (operators, calls, frames))
    rest = iv.difference(idle, waiting)
    working = iv.intersection(rest, iv.union(*works))
    return _Pauses(waiting, working, iv.difference(rest, working))


def _between(gaps: Intervals, pauses: _Pauses) -> BetweenIterations:
    total, (waiting, working, unknown) = iv.total(gaps), map(iv.total, pauses)
    device = total - waiting - working - unknown
    return BetweenIterations(total=total, device=device, waiting=waiting, scheduling=working, unknown=unknown)


def request_pauses(trace: Trace) -> Intervals:
    """Where a server has or may have no request: between iterations that it marks the host waits, or does nothing
    that is known for as long as that."""
    found = find_iterations(trace)
    if found is None or found.source == SHAPES:
        return iv.EMPTY
    device = main_device(trace)
    begin, end = _windows(trace, found.iterations, device)
    busy = trace.device.intervals(trace.device.device == device)
    pauses = _pauses(trace, found.thread, iv.make(end[:-1], begin[1:]), busy)
    unknown = pauses.unknown
    return iv.union(pauses.waiting, unknown[unknown[:, 1] - unknown[:, 0] >= SHORTEST_HOST_WAIT])


def _token_times(iterations: list[Iteration], end: Integers) -> TokenTimes | None:
    """A decode has a sequence of the decode before it if it has more of them than were prefilled between."""
    decoding = [i for i, one in enumerate(iterations) if one.batch.kind in (DECODE, MIXED)]
    times: list[int] = []
    interrupted = 0
    for before, after in pairwise(decoding):
        between = [one.batch for one in iterations[before + 1 : after]]
        prefilled = [batch.prefills for batch in between]
        decodes = iterations[after].batch.decodes
        if between and (decodes is None or None in prefilled or decodes <= sum(n or 0 for n in prefilled)):
            continue
        times.append(int(end[after] - end[before]))
        interrupted += bool(between)
    if not times:
        return None
    return TokenTimes(
        count=len(times),
        median=round(float(np.median(times))),
        p95=_percentile(times, 95),
        p99=_percentile(times, 99),
        longest=max(times),
        interrupted=interrupted,
    )


def _notes(trace: Trace, found: Iterations, listed: list[IterationTime]) -> list[str]:
    """What the trace cannot tell."""
    notes = ["no trace says which request is in which iteration, nor when it came: no time per request"]
    if not trace.has_stacks:
        notes.append("recorded without stacks: waiting for requests is not told from other pauses of the host")
    unknown = sum(one.sequences is None for one in listed)
    if unknown:
        notes.append(
            f"the batch of {unknown} of {len(listed)} iterations is not known: neither name nor shapes tell"
        )
    counts = {kind: sum(one.kind == kind for one in listed) for kind in KINDS}
    if found.source == PLAIN and counts[DECODE] <= counts[PREFILL]:
        notes.append("as many ranges are named decode as prefill: each may hold a whole loop of iterations")
    if found.source == SHAPES:
        notes.append("iterations by shapes: a chunk of a prompt, and a verification of drafts, count as prefills")
    if any(one.tokens and one.sequences and one.kind == DECODE and one.tokens > one.sequences for one in listed):
        notes.append("decodes of several tokens a sequence (drafts): how many were accepted is not recorded")
    return notes
