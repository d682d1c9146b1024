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
from collections.abc import Mapping
from heapq import heappop, heappush
from statistics import median_high
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from tare.trace.intervals import Integers, Intervals, covered_length, divide_overlaps, make, total

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

    # Stretches of host time that vanish: pairs of start and end.
    removed: npt.ArrayLike = ()
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


class Replay:
    """One recorded window. `calls` and `activities` are sorted by start; `end` is where the host's part ends.

    `excluded` are stretches of host time that belong to no step and take no time here.
    """

    def __init__(
        self,
        start: int,
        end: int,
        calls: list[RuntimeCall],
        activities: list[Activity],
        excluded: npt.ArrayLike = (),
    ) -> None:
        self.start, self.end, self.excluded = start, end, as_intervals(excluded)
        self.calls, self.activities = calls, activities
        self.host_factor = 1.0
        self._latency = self._usual_latency()
        self._dependencies = self._read_dependencies()
        self._awaited = self._read_awaited()
        self._host = self._host_periods(())
        starts, ends = [max(activity.start, start) for activity in activities], [a.end for a in activities]
        self._busy = total(make(starts, ends))
        # The share of that for which each activity accounts: streams that run at once divide it.
        self._busy_parts: list[float] = divide_overlaps(starts, ends).tolist()

    def calibrate(self, measured: float, host: float | None = None) -> None:
        """Finds the factor on host time with which the unchanged replay takes `measured` ns, as far as any does.
        `host` is what the host took without a profiler, if known: it gives the usual factor."""
        filled = self._busy >= FILLED * self.run()
        recorded = sum(map(sum, self._host))
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
        before, inside = self._host_periods(what_if.removed) if np.size(what_if.removed) else self._host
        ends = [float(a.end - self.start) if a.call < 0 else 0.0 for a in self.activities]
        # The host runs ahead: the end of an activity is computed when a call waits for it, or at the very end.
        pending = deque(index for index, activity in enumerate(self.activities) if activity.call >= 0)
        call_starts: list[float] = []
        host = 0.0
        for index, (call, awaited) in enumerate(zip(self.calls, self._awaited, strict=True)):
            start = host + before[index] * self.host_factor
            own = inside[index] * self.host_factor
            call_starts.append(start)
            if call.waits and index in what_if.unwaited:
                host = start
            elif awaited < 0:
                host = start + own
            else:
                self._advance(pending, awaited, call_starts, ends, what_if)
                # A device that was done before the call may be late under the change.
                was_done = self.activities[awaited].end <= call.start
                host = max(start + own, ends[awaited]) if was_done else max(start, ends[awaited]) + own
        host += before[-1] * self.host_factor
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

    def _host_periods(self, removed: npt.ArrayLike) -> tuple[list[int], list[int]]:
        """Host time (ns) before each call and after the last one, and within each call after what it waited for;
        without `removed` and without what belongs to no step."""
        absent = np.concatenate([as_intervals(removed), self.excluded])

        def remaining(starts: Integers, ends: Integers) -> list[int]:
            ends = np.maximum(starts, ends)
            periods: list[int] = (ends - starts - covered_length(absent, starts, ends)).tolist()
            return periods

        starts = np.array([call.start for call in self.calls], dtype=np.int64)
        ends = np.array([call.end for call in self.calls], dtype=np.int64)
        # The host is in one call at a time: a call that starts within another continues from the end of that one.
        reached = np.maximum.accumulate(np.concatenate([[self.start], ends]))
        waited = [self.activities[awaited].end if awaited >= 0 else self.start for awaited in self._awaited]
        return (
            remaining(reached, np.append(starts, self.end)),
            remaining(np.maximum(starts, np.minimum(np.array(waited, dtype=np.int64), ends)), ends),
        )

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

    def _usual_latency(self) -> int:
        """From a call to the activity that it launches, on a device that has nothing else to do."""
        latencies, busy_until = [], 0
        for activity in self.activities:
            launched = self.calls[activity.call].start if activity.call >= 0 else -1
            if busy_until <= launched <= activity.start:
                latencies.append(activity.start - launched)
            busy_until = max(busy_until, activity.end)
        return median_high(latencies) if latencies else USUAL_LATENCY

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
        """For each waiting call, the last activity to end before it returned, of those launched by then; or -1."""
        order = sorted(range(len(self.activities)), key=lambda i: self.activities[i].end)
        ends = [self.activities[i].end for i in order]
        awaited = []
        for index, call in enumerate(self.calls):
            at = bisect_right(ends, call.end) - 1 if call.waits else -1
            while at >= 0 and self.activities[order[at]].call > index:
                at -= 1
            awaited.append(order[at] if at >= 0 else -1)
        return awaited


def as_intervals(spans: npt.ArrayLike) -> Intervals:
    """Pairs of start and end as an array, also where there are none."""
    return np.asarray(spans, dtype=np.int64).reshape(-1, 2)
