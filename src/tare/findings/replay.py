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

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from heapq import heappop, heappush
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from tare.trace.intervals import Integers, Intervals, covered_length, divide_overlaps, make, total
from tare.trace.spans import pick, rows_by_value

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


# Call; latency of the device and of the host; predecessor on the stream and handover; another one and handover;
# length, negative for an activity that is dropped.
_Queued = tuple[int, int, float, int, int, int, float, float]


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
        self._columns = _columns(activities, len(Activity._fields))
        start, end, _, call = self._columns.T
        # When each activity was launched; those of the window only.
        self._launched = np.where(
            call >= 0, np.array([*(call.start for call in calls), 0], dtype=np.int64)[call], start
        )
        self._latency = self._usual_latency()
        self._dependencies = self._read_dependencies()
        self._awaited = self._read_awaited()
        self._host = self._host_periods(())
        # What was launched before the window ends as recorded.
        self._fixed_ends: list[float] = np.where(call < 0, end - self.start, 0).astype(np.float64).tolist()
        # The length of the unchanged window by factor on host time.
        self._unchanged: dict[float, float] = {}
        begun = np.maximum(start, self.start)
        self._busy = total(make(begun, end))
        # The share of that for which each activity accounts: streams that run at once divide it.
        self._busy_parts: list[float] = divide_overlaps(begun, end).tolist()

    def calibrate(self, measured: float, host: float | None = None) -> None:
        """Finds the factor on host time with which the unchanged replay takes `measured` ns, as far as any does.
        `host` is what the host took without a profiler, if known: it gives the usual factor."""
        recorded = sum(map(sum, self._host))
        usual = min(host / recorded, 1.0) if host and recorded else USUAL_FACTOR
        self.host_factor = usual
        excess = self.run() / max(measured, 1.0) - 1
        if excess > ALIKE:
            self._search_factor(measured, 0.0, usual)
        elif excess < -ALIKE and not self._filled():
            self._search_factor(measured, usual, SLOWEST_HOST)

    def _filled(self) -> bool:
        """Whether the device was busy for nearly the whole recording."""
        usual, self.host_factor = self.host_factor, 1.0
        filled = self._busy >= FILLED * self.run()
        self.host_factor = usual
        return filled

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
        if what_if is not UNCHANGED:
            return self._run(what_if)
        # Every saving is a difference from this one.
        if self.host_factor not in self._unchanged:
            self._unchanged[self.host_factor] = self._run(what_if)
        return self._unchanged[self.host_factor]

    def _run(self, what_if: WhatIf) -> float:
        periods = self._host_periods(what_if.removed) if np.size(what_if.removed) else self._host
        before, inside = ((np.array(lengths) * self.host_factor).tolist() for lengths in periods)
        ends = self._fixed_ends.copy()
        queue = self._queue(what_if)
        # The host runs ahead: the end of an activity is computed when a call waits for it, or at the very end.
        pending = deque(np.flatnonzero(self._columns[:, 3] >= 0).tolist())
        call_starts: list[float] = []
        host = 0.0
        for index, (call, awaited) in enumerate(zip(self.calls, self._awaited, strict=True)):
            start = host + before[index]
            call_starts.append(start)
            if call.waits and index in what_if.unwaited:
                host = start
            elif awaited < 0:
                host = start + inside[index]
            else:
                self._advance(pending, awaited, call_starts, ends, queue)
                # A device that was done before the call may be late under the change.
                was_done = self.activities[awaited].end <= call.start
                own = inside[index]
                host = max(start + own, ends[awaited]) if was_done else max(start, ends[awaited]) + own
        host += before[-1]
        self._advance(pending, len(self.activities), call_starts, ends, queue)
        return float(max(host, max(ends, default=0.0), self._least_device_time(what_if)))

    def _advance(
        self, pending: deque[int], last: int, call_starts: list[float], ends: list[float], queue: list[_Queued]
    ) -> None:
        """Computes the ends of the activities up to `last` that are launched by now, in the order of their
        recorded starts: what an activity waited for started before it, but may have been launched after it on
        another stream."""
        not_launched: list[int] = []
        launched_calls = len(call_starts)
        while pending and pending[0] <= last:
            index = pending.popleft()
            call, latency, delay, previous, handover, other, other_handover, length = queue[index]
            if call >= launched_calls:
                not_launched.append(index)
                continue
            launched = call_starts[call]
            if length < 0:
                # Only its position in the order of the stream is left.
                ends[index] = ends[previous] if previous >= 0 else launched
                continue
            start = launched + latency + delay
            if previous >= 0 and (then := ends[previous] + handover) > start:
                start = then
            if other >= 0 and (then := ends[other] + other_handover) > start:
                start = then
            ends[index] = start + length
        pending.extendleft(reversed(not_launched))

    def _queue(self, what_if: WhatIf) -> list[_Queued]:
        """What each activity waits for under the change."""
        columns = self._dependencies
        latency, previous, handover, other, other_handover = columns.T
        factors = np.ones(len(columns))
        factors[list(what_if.factors)] = list(what_if.factors.values())
        kept_other = other
        if what_if.detached:
            # A detached activity waits only for detached ones; the others wait for what it waited for.
            waited_for = self._nearest(what_if.detached)
            alone = np.zeros(len(columns), dtype=np.int64)
            alone[list(what_if.detached)] = 1
            dropped = factors == 0
            previous = np.where(dropped, previous, waited_for[alone, previous])
            other = waited_for[alone, other]
        # An overlap with a kernel shrinks with that kernel; a different predecessor is waited for entirely.
        overlap = other_handover * np.where(other == kept_other, np.append(factors, 1.0)[other], 0.0)
        # The device's own part of the latency does not depend on how fast the host is.
        physical = np.minimum(latency, USUAL_LATENCY)
        start, end, _, calls = self._columns.T
        return list(
            zip(
                calls.tolist(),
                physical.tolist(),
                ((latency - physical) * self.host_factor).tolist(),
                previous.tolist(),
                np.minimum(handover, what_if.handover).tolist(),
                other.tolist(),
                np.minimum(np.where(other_handover < 0, overlap, other_handover), what_if.handover).tolist(),
                np.where(factors == 0, -1.0, (end - start) * factors).tolist(),
                strict=True,
            )
        )

    def _nearest(self, detached: Collection[int]) -> Integers:
        """For each activity that one or the nearest before it on its stream that is not detached, and in a second
        row the nearest that is; -1 for none, also for the activity -1."""
        nearest = np.full((2, len(self.activities) + 1), -1, dtype=np.int64)
        for index, previous in enumerate(self._dependencies[:, 1].tolist()):
            nearest[:, index] = nearest[:, previous]
            nearest[int(index in detached), index] = index
        return nearest

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

    def _usual_latency(self) -> int:
        """From a call to the activity that it launches, on a device that has nothing else to do."""
        start, end, _, call = self._columns.T
        busy_until = np.maximum.accumulate(np.append(0, end))[:-1]
        launched = self._launched
        idle = (call >= 0) & (busy_until <= launched) & (launched <= start)
        latencies = np.sort((start - launched)[idle])
        return int(latencies[len(latencies) // 2]) if len(latencies) else USUAL_LATENCY

    def _read_dependencies(self) -> Integers:
        """When each activity could start: so long after its call, so long after the previous one on its stream,
        and so long after one of another stream (negative: before the end of that one). -1 stands for none.
        Columns: latency, previous, its handover, other, its handover."""
        start, end, stream, _ = self._columns.T
        previous = np.full(len(start), -1, dtype=np.int64)
        for rows in rows_by_value(stream).values():
            previous[rows[1:]] = rows[:-1]
        free = np.where(previous >= 0, pick(end, previous), start - LONGEST_HANDOVER - 1)
        delay, pause = np.maximum(start - self._launched, 0), start - free
        # It was queued on its stream; on an idle device it would have started after the usual latency.
        queued = (pause >= 0) & (pause <= LONGEST_HANDOVER) & (free >= self._launched)
        latency = np.where(queued, np.minimum(delay, self._latency), delay)
        handover = np.where(queued, pause, np.clip(pause, 0, 1_000))
        other, other_handover = np.full_like(previous, -1), np.zeros_like(previous)
        # Launched long before its start, it waited for another stream, or for room: a large kernel leaves none
        # until its last blocks run.
        late = np.flatnonzero(~queued & (delay > 2 * self._latency))
        for index, candidates in zip(late.tolist(), self._others(late), strict=True):
            for candidate in candidates:
                since = int(start[index] - end[candidate])
                if candidate >= 0 and candidate != previous[index] and since <= LONGEST_HANDOVER:
                    latency[index] = min(int(delay[index]), self._latency)
                    other[index], other_handover[index] = candidate, since
                    break
        return np.stack([latency, previous, handover, other, other_handover], axis=1)

    def _others(self, wanted: Integers) -> list[tuple[int, int]]:
        """Of all streams, for each of these activities the one that had ended last, and the first to end of those
        that were running; or -1."""
        if not len(wanted):
            return []
        found: list[tuple[int, int]] = []
        # Activities that are still running, by end; and the one that ended last.
        running: list[tuple[int, int]] = []
        ended = -1
        for index, activity in enumerate(self.activities):
            while running and running[0][0] <= activity.start:
                _, ended = heappop(running)
            found.append((ended, running[0][1] if running else -1))
            heappush(running, (activity.end, index))
        return [found[index] for index in wanted.tolist()]

    def _read_awaited(self) -> list[int]:
        """For each waiting call, the last activity to end before it returned, of those launched by then; or -1."""
        _, end, _, call = self._columns.T
        order = np.argsort(end, kind="stable")
        ends = end[order]
        awaited = [-1] * len(self.calls)
        for index in [index for index, call in enumerate(self.calls) if call.waits]:
            at = int(np.searchsorted(ends, self.calls[index].end, side="right")) - 1
            while at >= 0 and call[order[at]] > index:
                at -= 1
            awaited[index] = int(order[at]) if at >= 0 else -1
        return awaited


def _columns(rows: Iterable[tuple[int, ...]], width: int) -> Integers:
    """np.array would look at the type of every number."""
    return np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, width)


def as_intervals(spans: npt.ArrayLike) -> Intervals:
    """Pairs of start and end as an array, also where there are none."""
    return np.asarray(spans, dtype=np.int64).reshape(-1, 2)
