"""How long a recorded step would take if something in it were different.

The time that a fix saves is not the time that its symptom takes: a wait costs nothing while the device is busy,
and a launch costs nothing while the queue is full. So the recorded timeline is replayed. The host goes from call
to call; a device activity starts when it has been launched and what it waited for has ended; a waiting call
returns when the device has reached that point. What each activity and each wait depended on is read from the
recording: the condition that was met last, as in critical-path replays (Zhu et al., Daydream, USENIX ATC 2020).

A profiler slows down the host and hardly the device. `calibrate` finds the one factor on host time with which the
replay takes as long as the step without a profiler; all savings are then in unprofiled time. Where the device
alone fills the step, the measured time says nothing about the host, and the usual factor is taken.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec
import numpy as np

from tare.trace.intervals import Integers, Intervals, covered_length, divide_overlaps, make, total
from tare.trace.tables import COPY_CALL, PAGEABLE, SYNC, Mask, Trace

Span = tuple[int, int]

# The longest pause between the end of an activity and the start of one that waited for it (ns); a longer pause has
# another cause.
LONGEST_HANDOVER = 10_000
# From the launching call to the start of the activity on an idle device without a profiler (ns).
USUAL_LATENCY = 5_000
# The range in which calibration searches the factor on host time, and its precision.
SLOWEST_HOST = 2.0
CLOSE_ENOUGH = 1e-4
# The median factor of the steps recorded beside an H200 that wait for their host. It is kept where the replayed
# step takes the measured time within ALIKE, or where the device was busy for the share FILLED of the recording.
USUAL_FACTOR = 0.5
ALIKE, FILLED = 0.03, 0.9
# A replay takes about a microsecond a call: this many calls of a long trace are enough for a saving.
MOST_CALLS = 20_000
# What recording one Python frame costs the host at its call and again at its return (ns), in Python code only, not
# in the operators that it calls. Beside an H200: 270 in a hot loop and 520 in formatting tracebacks (profiled step
# minus unprofiled step), 800 in ResNet-50 (with stacks minus without). The smallest is taken.
FRAME_NS = 270
# Calls that hold the host until the device is done, besides those of the kind SYNC.
_BLOCKING = ("cudaFree", "cudaMemcpy", "hipFree", "hipMemcpy", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2")
_DEVICE_SYNC = ("cudaDeviceSynchronize", "hipDeviceSynchronize", "cuCtxSynchronize")


class RuntimeCall(NamedTuple):
    """A call of the CUDA runtime, in recorded nanoseconds. `waits`: it may hold the host until the device is
    done."""

    start: int
    end: int
    waits: bool = False


class Activity(NamedTuple):
    """A kernel, copy or memset; `call` is the index of the call that launched it, -1 for one outside the
    window."""

    start: int
    end: int
    stream: int
    call: int


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """A hypothetical change of the recording. In a rule, calls and activities are rows of `trace.calls` and
    `trace.device`; in a Replay they are indices of its own lists."""

    # Stretches of host time that vanish.
    removed: list[Span] = []
    # Calls that no longer wait.
    unwaited: frozenset[int] = frozenset()
    # Factors on the durations of activities; 0 drops one.
    factors: Mapping[int, float] = {}
    # Activities that run on a stream of their own, beside the others.
    detached: frozenset[int] = frozenset()
    # The longest pause between the end of an activity and the start of one that waits for it (ns).
    handover: int = LONGEST_HANDOVER


UNCHANGED = WhatIf()


class _Dependency(NamedTuple):
    """When an activity could start: so long after its call, so long after the previous one on its stream, and so
    long after one of another stream (negative: before the end of that one). -1 stands for none."""

    latency: int
    previous: int
    handover: int
    other: int
    other_handover: int


class _HostPeriods(NamedTuple):
    """Nanoseconds of the host: before each call, within it (after the wait, if it waited), after the last call."""

    before: list[int]
    inside: list[int]
    after: int


class Replay:
    """One recorded window. `calls` and `activities` are sorted by start; `end` is where the host's part ends.

    `excluded` are stretches of host time (sorted, disjoint) that belong to no step and take no time here.
    """

    def __init__(
        self,
        start: int,
        end: int,
        calls: list[RuntimeCall],
        activities: list[Activity],
        excluded: Sequence[Span] = (),
    ) -> None:
        self.start, self.end, self.excluded = start, end, list(excluded)
        self.calls, self.activities = calls, activities
        self.host_factor = 1.0
        self._latency = self._usual_latency()
        self._dependencies = self._read_dependencies()
        self._awaited = self._read_awaited()
        self._host = self._host_periods([])
        starts, ends = [max(activity.start, start) for activity in activities], [a.end for a in activities]
        self._busy = total(make(starts, ends))
        # The share of that for which each activity accounts: streams that run at once divide it.
        self._busy_parts: list[float] = divide_overlaps(starts, ends).tolist()

    def calibrate(self, measured: float, host: float | None = None) -> None:
        """Finds the factor on host time with which the unchanged replay takes `measured` ns, as far as any does.
        `host` is what the host took without a profiler, if known: it gives the usual factor."""
        filled = self._busy >= FILLED * self.run()
        recorded = sum(self._host.before) + sum(self._host.inside) + self._host.after
        usual = min(host / recorded, 1.0) if host and recorded else USUAL_FACTOR
        self.host_factor = usual
        excess = self.run() / max(measured, 1.0) - 1
        if excess > ALIKE:
            self._search_factor(measured, 0.0, usual)
        elif excess < -ALIKE and not filled:
            self._search_factor(measured, usual, SLOWEST_HOST)

    def _search_factor(self, measured: float, low: float, high: float) -> None:
        while high - low > CLOSE_ENOUGH:
            self.host_factor = (low + high) / 2
            if self.run() < measured:
                low = self.host_factor
            else:
                high = self.host_factor

    def saving(self, what_if: WhatIf) -> float:
        """Nanoseconds of the window that the change saves."""
        return max(self.run() - self.run(what_if), 0.0)

    def run(self, what_if: WhatIf = UNCHANGED) -> float:
        """How long the window takes under the change, in ns."""
        periods = self._host_periods(what_if.removed) if what_if.removed else self._host
        ends = [float(a.end - self.start) if a.call < 0 else 0.0 for a in self.activities]
        # The host runs ahead: the end of an activity is computed when a call waits for it, or at the very end.
        pending = deque(index for index, activity in enumerate(self.activities) if activity.call >= 0)
        call_starts: list[float] = []
        host = 0.0
        for index, before in enumerate(periods.before):
            call_starts.append(host + before * self.host_factor)
            if self.calls[index].waits and index not in what_if.unwaited:
                self._advance(pending, self._awaited[index], call_starts, ends, what_if)
            inside = periods.inside[index] * self.host_factor
            host = self._return_time(index, call_starts[-1], ends, what_if, inside)
        host += periods.after * self.host_factor
        self._advance(pending, len(self.activities), call_starts, ends, what_if)
        return max(host, max(ends, default=0.0), self._least_device_time(what_if))

    def _advance(
        self, pending: deque[int], last: int, call_starts: list[float], ends: list[float], what_if: WhatIf
    ) -> None:
        """Computes the ends of the activities up to `last` that are launched by now, in the order of their
        recorded starts: what an activity waited for started before it, but may have been launched after it on
        another stream."""
        not_launched: list[int] = []
        while pending and pending[0] <= last:
            index = pending.popleft()
            call = self.activities[index].call
            if call < len(call_starts):
                ends[index] = self._end_time(index, call_starts[call], ends, what_if)
            else:
                not_launched.append(index)
        pending.extendleft(reversed(not_launched))

    def _least_device_time(self, what_if: WhatIf) -> float:
        """The device still has to do what the change leaves, with no more overlap than was recorded. Without this
        bound streams would run ahead of each other, since only the last dependency of an activity is known."""
        saved = sum(self._busy_parts[index] * (1 - factor) for index, factor in what_if.factors.items())
        hidden = sum(self._busy_parts[index] for index in what_if.detached if index not in what_if.factors)
        return self._busy - saved - hidden

    def _host_periods(self, removed: Sequence[Span]) -> _HostPeriods:
        """Host time as recorded, without `removed` and without what belongs to no step."""
        absent: Intervals = np.array([*removed, *self.excluded], dtype=np.int64).reshape(-1, 2)

        def remaining(starts: Integers, ends: Integers) -> list[int]:
            ends = np.maximum(starts, ends)
            periods: list[int] = (ends - starts - covered_length(absent, starts, ends)).tolist()
            return periods

        starts = np.array([call.start for call in self.calls], dtype=np.int64)
        ends = np.array([call.end for call in self.calls], dtype=np.int64)
        # The host is in one call at a time: a call that starts within another continues from the end of that one.
        reached = np.maximum.accumulate(np.concatenate([[self.start], ends]))
        waited = np.array([self._waited_until(index) for index in range(len(self.calls))], dtype=np.int64)
        before = remaining(reached, np.append(starts, self.end))
        inside = remaining(np.maximum(starts, np.minimum(waited, ends)), ends)
        return _HostPeriods(before[:-1], inside, before[-1])

    def _waited_until(self, index: int) -> int:
        """When the awaited activity had ended; for a call that does not wait, the start of the call."""
        call, awaited = self.calls[index], self._awaited[index]
        return self.activities[awaited].end if call.waits and awaited >= 0 else call.start

    def _end_time(self, index: int, launched: float, ends: list[float], what_if: WhatIf) -> float:
        dependency = self._dependencies[index]
        factor = what_if.factors.get(index, 1.0)
        if factor == 0:
            # Only its position in the order of the stream is left.
            return ends[dependency.previous] if dependency.previous >= 0 else launched
        # The device's own part of the latency does not depend on how fast the host is.
        physical = min(dependency.latency, USUAL_LATENCY)
        start = launched + physical + (dependency.latency - physical) * self.host_factor
        # A detached activity waits only for detached ones; the others wait for what it waited for.
        alone = index in what_if.detached
        previous = self._predecessor(dependency.previous, alone, what_if)
        other = self._predecessor(dependency.other, alone, what_if)
        if previous >= 0:
            start = max(start, ends[previous] + min(dependency.handover, what_if.handover))
        if other >= 0:
            handover: float = dependency.other_handover
            if handover < 0:
                # An overlap with a kernel shrinks with that kernel; a different predecessor is waited for
                # entirely.
                handover *= what_if.factors.get(other, 1.0) if other == dependency.other else 0.0
            start = max(start, ends[other] + min(handover, what_if.handover))
        return start + (self.activities[index].end - self.activities[index].start) * factor

    def _predecessor(self, index: int, alone: bool, what_if: WhatIf) -> int:
        """This activity, or the nearest one before it on its stream that is detached (or is not)."""
        while index >= 0 and (index in what_if.detached) != alone:
            index = self._dependencies[index].previous
        return index

    def _return_time(self, index: int, start: float, ends: list[float], what_if: WhatIf, inside: float) -> float:
        call, awaited = self.calls[index], self._awaited[index]
        if not call.waits:
            return start + inside
        if index in what_if.unwaited:
            return start
        if awaited < 0:
            return start + inside
        if self.activities[awaited].end <= call.start:
            # The device was done before the call, but may be late under the change.
            return max(start + inside, ends[awaited])
        return max(start, ends[awaited]) + inside

    def _usual_latency(self) -> int:
        latencies = []
        busy_until = 0
        for activity in self.activities:
            if activity.call >= 0 and self.calls[activity.call].start >= busy_until:
                latencies.append(activity.start - self.calls[activity.call].start)
            busy_until = max(busy_until, activity.end)
        latencies = sorted(latency for latency in latencies if latency >= 0)
        return latencies[len(latencies) // 2] if latencies else USUAL_LATENCY

    def _read_dependencies(self) -> list[_Dependency]:
        dependencies = []
        last_on_stream: dict[int, int] = {}
        # Activities that are still running, by end; and the one that ended last.
        running: list[tuple[int, int]] = []
        ended = -1
        for index, activity in enumerate(self.activities):
            while running and running[0][0] <= activity.start:
                _, ended = heappop(running)
            ending = running[0][1] if running else -1
            previous = last_on_stream.get(activity.stream, -1)
            dependencies.append(self._dependency(activity, previous, ended, ending))
            last_on_stream[activity.stream] = index
            heappush(running, (activity.end, index))
        return dependencies

    def _dependency(self, activity: Activity, previous: int, ended: int, ending: int) -> _Dependency:
        """`previous` is the last one on its stream. Of all streams, `ended` is the one that had ended last, and
        `ending` the first to end of those that were running."""
        launched = self.calls[activity.call].start if activity.call >= 0 else activity.start
        delay = max(activity.start - launched, 0)
        pause = activity.start - self.activities[previous].end if previous >= 0 else LONGEST_HANDOVER + 1
        if 0 <= pause <= LONGEST_HANDOVER and self.activities[previous].end >= launched:
            # It was queued on its stream; on an idle device it would have started after the usual latency.
            return _Dependency(min(delay, self._latency), previous, pause, -1, 0)
        handover = min(max(pause, 0), 1_000)
        # Launched long before its start, it waited for another stream, or for room: a large kernel leaves none
        # until its last blocks run.
        for other in (ended, ending) if delay > 2 * self._latency else ():
            since = activity.start - self.activities[other].end
            if other >= 0 and other != previous and since <= LONGEST_HANDOVER:
                return _Dependency(min(delay, self._latency), previous, handover, other, since)
        return _Dependency(delay, previous, handover, -1, 0)

    def _read_awaited(self) -> list[int]:
        """For each waiting call, the last activity to end before it returned, of those launched by then."""
        order = sorted(range(len(self.activities)), key=lambda i: self.activities[i].end)
        ends = [self.activities[i].end for i in order]
        awaited = []
        for index, call in enumerate(self.calls):
            target = -1
            if call.waits:
                at = bisect_right(ends, call.end) - 1
                while at >= 0 and self.activities[order[at]].call > index:
                    at -= 1
                target = order[at] if at >= 0 else -1
            awaited.append(target)
        return awaited


@dataclass(frozen=True)
class TraceReplay:
    """The replay of a trace's steps. `call_index` and `activity_index` map rows of `trace.calls` and
    `trace.device` to the replay's indices."""

    replay: Replay
    steps: int
    call_index: dict[int, int]
    activity_index: dict[int, int]
    # Rows of the calls with which a profiler waits for the device at the end of each step. They do not wait in the
    # replay: without a profiler nothing waits there.
    profiler_syncs: frozenset[int]


def replay_of(trace: Trace, keep_profiler_syncs: bool = False) -> TraceReplay:
    """The counted steps of a trace, up to MOST_CALLS calls, as one window."""
    first, last, steps = _window(trace)
    calls, device = trace.calls, trace.device
    rows = np.flatnonzero((calls.start >= first) & (calls.start < last))
    call_index = {row: index for index, row in enumerate(rows.tolist())}
    syncs: frozenset[int] = frozenset() if keep_profiler_syncs else _profiler_syncs(trace, first, last)
    waits = blocking_calls(trace)
    replayed_calls = [
        RuntimeCall(int(calls.start[row]), int(calls.end[row]), bool(waits[row]) and row not in syncs)
        for row in rows.tolist()
    ]
    activities: list[Activity] = []
    activity_index: dict[int, int] = {}
    launched = np.isin(device.call, rows)
    # What was launched before the window runs in it as recorded.
    running = ~launched & (device.start < last) & (device.end > first)
    for row in np.flatnonzero(launched | running).tolist():
        activity_index[row] = len(activities)
        # Streams of two devices may have the same number.
        stream = int(device.stream[row]) + (int(device.device[row]) << 32)
        call = call_index.get(int(device.call[row]), -1)
        activities.append(Activity(int(device.start[row]), int(device.end[row]), stream, call))
    excluded = [(int(calls.start[row]), int(calls.end[row])) for row in sorted(syncs)]
    excluded += _between_steps(trace, first, last) + _frame_recording(trace, first, last)
    united = make([start for start, _ in excluded], [end for _, end in excluded])
    replay = Replay(first, last, replayed_calls, activities, [(int(start), int(end)) for start, end in united])
    return TraceReplay(replay, steps, call_index, activity_index, syncs)


def blocking_calls(trace: Trace) -> Mask:
    """Calls that may hold the host: synchronisations, copies of pageable memory, and those that wait
    implicitly."""
    calls, device = trace.calls, trace.device
    blocking = np.zeros(len(calls), dtype=bool)
    blocking[device.call[(device.memory == PAGEABLE) & (device.call >= 0)]] = True
    blocking &= calls.kind == COPY_CALL
    blocking |= (calls.kind == SYNC) | trace.named(calls, *_BLOCKING)
    return blocking


def _window(trace: Trace) -> tuple[int, int, int]:
    """Start, end and number of steps of the longest run of consecutive counted steps."""
    steps = trace.steps
    if len(steps) == 0:
        return 0, 0, 1
    begin, count = _longest_run(steps.counted.tolist())
    first = int(steps.start[begin])
    for index in range(begin + 1, begin + count):
        inside = (trace.calls.start >= first) & (trace.calls.start < steps.end[index])
        if int(inside.sum()) > MOST_CALLS:
            count = index - begin
            break
    return first, int(steps.end[begin + count - 1]), count


def _longest_run(counted: list[int]) -> tuple[int, int]:
    """First step and length of the longest run of counted steps; all steps where none counts."""
    best, begin = (0, 0), 0
    for index, value in enumerate([*counted, 0]):
        if not value:
            if index - begin > best[1]:
                best = (begin, index - begin)
            begin = index + 1
    return best if best[1] else (0, len(counted))


def _between_steps(trace: Trace, first: int, last: int) -> list[Span]:
    steps = trace.steps
    ends, starts = steps.end[:-1], steps.start[1:]
    return [(int(e), int(s)) for e, s in zip(ends, starts, strict=True) if first <= e < s <= last]


def _frame_recording(trace: Trace, first: int, last: int) -> list[Span]:
    """Host time that the profiler took to record Python frames: after each call and return, until the next
    event."""
    frames, threads = trace.frames, np.unique(trace.steps.thread)
    if len(frames) == 0:
        return []
    hooks = np.concatenate([times[np.isin(frames.thread, threads)] for times in (frames.start, frames.end)])
    hooks = np.unique(hooks[(hooks >= first) & (hooks < last)])
    moments = [hooks, np.array([last])]
    for table in (trace.operators, trace.calls):
        same_thread = np.isin(table.thread, threads)
        moments += [table.start[same_thread], table.end[same_thread]]
    edges = np.unique(np.concatenate(moments))
    until = np.minimum(hooks + FRAME_NS, edges[np.searchsorted(edges, hooks, side="right")])
    return [(int(start), int(end)) for start, end in zip(hooks, until, strict=True) if start < end]


def _profiler_syncs(trace: Trace, first: int, last: int) -> frozenset[int]:
    calls = trace.calls
    device_syncs = trace.named(calls, *_DEVICE_SYNC)
    rows = set()
    for start, end in zip(trace.steps.start.tolist(), trace.steps.end.tolist(), strict=True):
        inside = np.flatnonzero((calls.start >= start) & (calls.start < end) & (first <= start) & (end <= last))
        if len(inside) and device_syncs[inside[-1]]:
            rows.add(int(inside[-1]))
    return frozenset(rows)
