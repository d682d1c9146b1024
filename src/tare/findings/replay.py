"""What would a step take if something in it were gone: the recorded calls and works played again under changed
terms.

The time that a fix gives back is not the time that its symptom takes: a wait costs nothing while the device is
busy, and a launch that is saved costs nothing while the queue is full. So the recorded timeline is played again.
The host goes from call to call; a work on the device begins when it has been launched and what it waited for has
ended; a waiting call returns when the device has come so far. What bound each work and each wait is read from the
recording (the constraint that was met last), in the manner of critical-path replays (Zhu et al., Daydream, USENIX
ATC 2020).

A profiler slows the host and hardly the device. `calibrate` finds the one factor on host time with which the
recording takes what was measured without a profiler; all prices are then in unprofiled time. Where the device
alone fills the step, what was measured says nothing of the host, and its usual factor is taken.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec
import numpy as np

from tare.findings.host import HostTime, Left, as_intervals
from tare.trace.intervals import Intervals, divided, make, total

# Between the end of a work and the start of the next that waited for it, at most (ns); a longer pause has
# another cause.
LONGEST_HANDOVER = 10_000
# From the launching call to the start of the work on an idle device without a profiler (ns).
USUAL_LATENCY = 5_000
# Where calibration looks for the factor on host time.
SLOWEST_HOST = 2.0
CLOSE_ENOUGH = 1e-4
# What it usually is: the median of the steps recorded beside an H200 that wait for their host. It stays where the
# step then takes what was measured, to this share, or where the device was busy for that share of the recording.
USUAL_FACTOR = 0.5
ALIKE, FILLED = 0.03, 0.9


class Call(NamedTuple):
    """A call of the device's runtime, in recorded nanoseconds. `waits`: it may hold the host until the device is
    done."""

    start: int
    end: int
    waits: bool = False


class Work(NamedTuple):
    """A kernel, copy or memset; `call` is the index of the call that launched it, -1 if it is not in the
    window."""

    start: int
    end: int
    stream: int
    call: int


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What is different: host intervals that vanish (sorted, disjoint), calls that no longer wait, factors on the
    duration of works (0 drops one), works that run beside the others on a stream of their own, and how long a work
    waits at most from the end of what it waited for (ns)."""

    removed: list[tuple[int, int]] = []
    unwaited: frozenset[int] = frozenset()
    factors: Mapping[int, float] = {}
    apart: frozenset[int] = frozenset()
    handover: int = LONGEST_HANDOVER


NOTHING = Edit()


class _Bound(NamedTuple):
    """What a work waited for: so long after its call, so long after the one before it, perhaps another
    stream's. It began before the end of that one where `other_handover` is negative."""

    latency: int
    before: int
    handover: int
    other: int
    other_handover: int


class Timeline:
    """One recorded window. Calls are sorted by start, and so are works; `end` is where the host's part of it ends.

    `outside` are stretches of host time (sorted, disjoint) that belong to no step and take none here.
    """

    def __init__(
        self,
        start: int,
        end: int,
        calls: list[Call],
        works: list[Work],
        outside: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.start, self.end, self.outside = start, end, list(outside)
        self.calls, self.works = calls, works
        self.host_factor = 1.0
        self._outside = as_intervals(self.outside)
        self._latency = self._usual_latency()
        self._bounds = self._read_bounds()
        self._targets = self._read_targets()
        self._host = self._host_time(self._outside)
        starts, ends = [max(work.start, start) for work in works], [work.end for work in works]
        self._busy = total(make(starts, ends))
        # Each work's part of that: streams that run at once share it.
        self._parts: list[float] = divided(starts, ends).tolist()

    def calibrate(self, measured: float, host: float | None = None) -> None:
        """Finds the factor on host time that makes the unchanged replay last `measured` ns, as far as one does.
        `host` is what the host took without a profiler, if that is known: it tells the usual factor."""
        filled = self._busy >= FILLED * self.replay()
        recorded = sum(self._host.before) + sum(self._host.inside) + self._host.after
        usual = min(host / recorded, 1.0) if host and recorded else USUAL_FACTOR
        self.host_factor = usual
        more = self.replay() / max(measured, 1.0) - 1
        if more > ALIKE:
            self._search(measured, 0.0, usual)
        elif more < -ALIKE and not filled:
            self._search(measured, usual, SLOWEST_HOST)

    def _search(self, measured: float, low: float, high: float) -> None:
        while high - low > CLOSE_ENOUGH:
            self.host_factor = (low + high) / 2
            if self.replay() < measured:
                low = self.host_factor
            else:
                high = self.host_factor

    def gain(self, edit: Edit) -> float:
        """Nanoseconds of the window that the edit gives back."""
        return max(self.replay() - self.replay(edit), 0.0)

    def replay(self, edit: Edit = NOTHING) -> float:
        """How long the window takes under the edit, in ns."""
        taken = self._host
        if edit.removed:
            taken = self._host_time(np.concatenate([as_intervals(edit.removed), self._outside]))
        ends = [float(work.end - self.start) if work.call < 0 else 0.0 for work in self.works]
        # The host is ahead of the device: works end when somebody waits for them, the rest when all is launched.
        left = deque(index for index, work in enumerate(self.works) if work.call >= 0)
        began: list[float] = []
        host = 0.0
        for index, before in enumerate(taken.before):
            began.append(host + before * self.host_factor)
            if self.calls[index].waits and index not in edit.unwaited:
                self._play(left, self._targets[index], began, ends, edit)
            host = self._return(index, began[-1], ends, edit, taken.inside[index] * self.host_factor)
        host += taken.after * self.host_factor
        self._play(left, len(self.works), began, ends, edit)
        return max(host, max(ends, default=0.0), self._left_to_do(edit))

    def _play(self, left: deque[int], last: int, began: list[float], ends: list[float], edit: Edit) -> None:
        """Ends the works up to this one, of those launched by now, in the order in which they began: what a work
        waited for had begun before it, but may have been launched after it, on another stream."""
        later: list[int] = []
        while left and left[0] <= last:
            index = left.popleft()
            call = self.works[index].call
            if call < len(began):
                ends[index] = self._work_end(index, began[call], ends, edit)
            else:
                later.append(index)
        left.extendleft(reversed(later))

    def _left_to_do(self, edit: Edit) -> float:
        """What the device needs at least: it still does what the edit leaves, and no more of it at a time than it
        did. Of what a work waited for only the last is known, and streams would run ahead of each other."""
        spared = sum(self._parts[index] * (1 - factor) for index, factor in edit.factors.items())
        hidden = sum(self._parts[index] for index in edit.apart if index not in edit.factors)
        return self._busy - spared - hidden

    def _length(self, index: int) -> int:
        return self.works[index].end - self.works[index].start

    def _host_time(self, removed: Intervals) -> HostTime:
        """Host time as it was recorded, but for what vanishes."""
        starts = np.array([call.start for call in self.calls], dtype=np.int64)
        ends = np.array([call.end for call in self.calls], dtype=np.int64)
        # The host is in one call at a time: what begins within another goes on from its end.
        reached = np.maximum.accumulate(np.concatenate([[self.start], ends]))
        waited = np.array([self._waited_until(index) for index in range(len(self.calls))], dtype=np.int64)
        left = Left(removed)
        before = left.of(reached, np.append(starts, self.end))
        inside = left.of(np.maximum(starts, np.minimum(waited, ends)), ends)
        return HostTime(before[:-1], inside, before[-1])

    def _waited_until(self, index: int) -> int:
        """When what a waiting call waited for had ended; of any other call, its start."""
        call, target = self.calls[index], self._targets[index]
        return self.works[target].end if call.waits and target >= 0 else call.start

    def _work_end(self, index: int, launched: float, ends: list[float], edit: Edit) -> float:
        bound = self._bounds[index]
        factor = edit.factors.get(index, 1.0)
        if factor == 0:
            # Nothing is left of it but its place in the order.
            return ends[bound.before] if bound.before >= 0 else launched
        # A device takes its time to begin, whatever a profiler does to the host.
        physical = min(bound.latency, USUAL_LATENCY)
        start = launched + physical + (bound.latency - physical) * self.host_factor
        # One that runs apart waits only for its like, and the others not for it but for what it waited for.
        alone = index in edit.apart
        before, other = self._ahead(bound.before, alone, edit), self._ahead(bound.other, alone, edit)
        if before >= 0:
            start = max(start, ends[before] + min(bound.handover, edit.handover))
        if other >= 0:
            handover: float = bound.other_handover
            if handover < 0:
                # What it did not wait for of a kernel shrinks with that; of any other it waits for the whole.
                handover *= edit.factors.get(other, 1.0) if other == bound.other else 0.0
            start = max(start, ends[other] + min(handover, edit.handover))
        return start + self._length(index) * factor

    def _ahead(self, work: int, alone: bool, edit: Edit) -> int:
        """This work, or the nearest one ahead of it in its stream that is (or is not) apart."""
        while work >= 0 and (work in edit.apart) != alone:
            work = self._bounds[work].before
        return work

    def _return(self, index: int, began: float, ends: list[float], edit: Edit, inside: float) -> float:
        call, target = self.calls[index], self._targets[index]
        if not call.waits:
            return began + inside
        if index in edit.unwaited:
            return began
        if target < 0:
            return began + inside
        if self.works[target].end <= call.start:
            # The device was done: the call cost only itself, but under an edit the device may be late.
            return max(began + inside, ends[target])
        return max(began, ends[target]) + inside

    def _usual_latency(self) -> int:
        found = []
        busy = 0
        for work in self.works:
            if work.call >= 0 and self.calls[work.call].start >= busy:
                found.append(work.start - self.calls[work.call].start)
            busy = max(busy, work.end)
        found = sorted(latency for latency in found if latency >= 0)
        return found[len(found) // 2] if found else USUAL_LATENCY

    def _read_bounds(self) -> list[_Bound]:
        bounds = []
        last_on: dict[int, int] = {}
        # Those that still run, by their end, and the one that ended last.
        running: list[tuple[int, int]] = []
        ended = -1
        for index, work in enumerate(self.works):
            while running and running[0][0] <= work.start:
                _, ended = heappop(running)
            ending = running[0][1] if running else -1
            bounds.append(self._bound(work, last_on.get(work.stream, -1), ended, ending))
            last_on[work.stream] = index
            heappush(running, (work.end, index))
        return bounds

    def _bound(self, work: Work, before: int, ended: int, ending: int) -> _Bound:
        """`before`: the one before it on its stream; of all, `ended`: the one that had ended last, and `ending`:
        of those that still ran, the one that ended first."""
        launched = self.calls[work.call].start if work.call >= 0 else work.start
        delay = max(work.start - launched, 0)
        pause = work.start - self.works[before].end if before >= 0 else LONGEST_HANDOVER + 1
        if 0 <= pause <= LONGEST_HANDOVER and self.works[before].end >= launched:
            # It stood in its stream's queue; on an idle device it would have started after the usual latency.
            return _Bound(min(delay, self._latency), before, pause, -1, 0)
        handover = min(max(pause, 0), 1_000)
        # Launched long before, it waited for another stream, or for room: a large kernel leaves none until its
        # last blocks run.
        for other in (ended, ending) if delay > 2 * self._latency else ():
            since = work.start - self.works[other].end
            if other >= 0 and other != before and since <= LONGEST_HANDOVER:
                return _Bound(min(delay, self._latency), before, handover, other, since)
        return _Bound(delay, before, handover, -1, 0)

    def _read_targets(self) -> list[int]:
        """For each waiting call, the work launched by then whose end it saw last."""
        order = sorted(range(len(self.works)), key=lambda i: self.works[i].end)
        ended = [self.works[i].end for i in order]
        targets = []
        for index, call in enumerate(self.calls):
            target = -1
            if call.waits:
                at = bisect_right(ended, call.end) - 1
                while at >= 0 and self.works[order[at]].call > index:
                    at -= 1
                target = order[at] if at >= 0 else -1
            targets.append(target)
        return targets
