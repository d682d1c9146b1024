"""The waterfall of a step: from the roofline, segment by segment, up to gross.

Gross is measured without a profiler; the trace says only how it divides. Profiling stretches the host's time and
not the device's, which the device itself stamps. So where the profiled step was slower than gross, device time
keeps its length, and the rest of gross is idle time, divided in proportion to its causes. Where the device was
busy for longer than gross there is no idle time. A profiled step that was faster than gross is scaled as a whole.
"""

from collections.abc import Mapping

import msgspec

from tare.trace.breakdown import Breakdown
from tare.trace.host_time import HostTime
from tare.trace.idle import IdleTime
from tare.trace.roofline import Roofline

# The segments from the bottom up.
MEANING = {
    "roofline": "the counted operations and bytes at this machine's measured peaks",
    "kernel inefficiency": "kernels that take longer than their operations and bytes would",
    "unfused traffic": "results written to memory and read again because each operator has a kernel of its own",
    "kernels": "the device computes (no roofline: nothing was counted, or no peaks are known)",
    "communication": "collectives between devices beside which nothing is computed, with their waiting",
    "launch gaps": "the device waits while a launch is under way, or for its own queue",
    "dispatch": "the host chooses and prepares kernels",
    "allocation": "the host asks the driver for memory",
    "python": "the host runs Python, outside of every operator",
    "data loading": "the host waits for the next batch",
    "synchronisation": "the host waits for a device that has already finished",
    "movement": "copies between host and device beside which nothing is computed",
    "tail": "after the last kernel, until the step ends",
    "host waiting": "the host waits for another thread, a queue or a socket: in a server, for a request",
    "work before the trace": "what was launched waits for work that began before the trace",
    "not known": "what was launched waits for something that the trace does not show",
}
ORDER = tuple(MEANING)
NET = ORDER[:4]
UNSEEN = (
    "the operators took less than the counted work needs, and most of the step is outside operators: code that "
    "was compiled ahead of time computes there unseen, and is shown as python"
)
BUSY = "the device was busy for longer under the profiler than a step takes without it: no idle time is shown"
_SEGMENT_OF_CAUSE = {"launch call": "launch gaps", "device-side waiting": "launch gaps"}


class WaterfallSegment(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    ns: int


class Waterfall(msgspec.Struct, frozen=True, kw_only=True):
    """`gross` is the sum of the segments, to the nanosecond. If it is `profiled`, only shares may be shown."""

    title: str
    gross: int
    profiled: bool = False
    segments: list[WaterfallSegment]
    notes: list[str]

    def find(self, name: str) -> int:
        return next((segment.ns for segment in self.segments if segment.name == name), 0)

    @property
    def net(self) -> int:
        return sum(self.find(name) for name in NET)


class SegmentDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One segment in two waterfalls; `removed` is how much less the other has of it."""

    name: str
    ns: int
    against: int
    removed: int


class WaterfallDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between two steps. `parts` add up to the difference of their gross times."""

    first: str
    other: str
    parts: list[SegmentDifference]


def device_waterfall(
    title: str, gross: int, parts: Breakdown, idle: IdleTime, roofline: Roofline | None, profiled: bool = False
) -> Waterfall:
    steps = max(len(parts.steps), 1)
    busy = {"kernels": parts.active, "communication": parts.communicating, "movement": parts.movement}
    waiting: dict[str, int] = {}
    for cause in idle.causes:
        name = _SEGMENT_OF_CAUSE.get(cause.cause, cause.cause)
        waiting[name] = waiting.get(name, 0) + cause.idle
    busy_per_step = {name: round(value / steps) for name, value in busy.items()}
    busy_ns = sum(busy_per_step.values())
    notes = []
    if busy_ns > gross:
        segments = apportion(gross, busy)
        notes.append(BUSY)
    elif parts.window / steps >= gross and parts.idle > 0:
        segments = busy_per_step | apportion(gross - busy_ns, waiting)
    else:
        segments = apportion(gross, busy | waiting)
    return _waterfall(title, gross, segments, roofline, notes, profiled)


def host_waterfall(
    title: str, gross: int, time: HostTime, roofline: Roofline | None, profiled: bool = False
) -> Waterfall:
    """The waterfall of a step on the CPU, where operators compute and dispatch."""
    weights = {"kernels": time.computed, "dispatch": time.dispatch, "python": time.outside}
    segments = apportion(gross, weights)
    unseen = roofline is not None and segments["kernels"] < min(roofline.ns, segments["python"])
    return _waterfall(title, gross, segments, roofline, [UNSEEN] if unseen else [], profiled)


def waterfall_difference(first: Waterfall, other: Waterfall) -> list[SegmentDifference]:
    """Segment by segment. What was removed adds up to the difference of the two gross times."""
    times = [(name, first.find(name), other.find(name)) for name in ORDER]
    return [SegmentDifference(name=name, ns=a, against=b, removed=a - b) for name, a, b in times if a or b]


def lower_roofline(waterfall: Waterfall, roofline: Roofline, proven: int) -> Waterfall:
    """The waterfall with a roofline that a faster step with the same work has proven to be lower."""
    if waterfall.find("roofline") <= proven:
        return waterfall
    segments = {segment.name: segment.ns for segment in waterfall.segments}
    segments |= msgspec.structs.replace(roofline, ns=proven).split(waterfall.net)
    note = (
        f"the same work took another rung's kernels {proven / 1e6:.3g} ms, less than the "
        f"{roofline.ns / 1e6:.3g} ms at the measured peaks: its time replaces the roofline"
    )
    return msgspec.structs.replace(waterfall, segments=_in_order(segments), notes=[*waterfall.notes, note])


def apportion(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """`total` divided in proportion to the weights into integers that add up to it (largest remainders).

    If all weights are zero, everything goes to the first.
    """
    weight_sum = sum(weights.values())
    if weight_sum == 0:
        return {name: total if i == 0 else 0 for i, name in enumerate(weights)}
    parts = {name: total * weight // weight_sum for name, weight in weights.items()}
    remainder = total - sum(parts.values())
    for name in sorted(weights, key=lambda name: -(total * weights[name] % weight_sum))[:remainder]:
        parts[name] += 1
    return parts


def _waterfall(
    title: str, gross: int, segments: dict[str, int], roofline: Roofline | None, notes: list[str], profiled: bool
) -> Waterfall:
    if roofline is not None:
        notes = notes + roofline.notes(segments["kernels"])
        segments = segments | roofline.split(segments.pop("kernels"))
    return Waterfall(title=title, gross=gross, profiled=profiled, segments=_in_order(segments), notes=notes)


def _in_order(segments: Mapping[str, int]) -> list[WaterfallSegment]:
    return [WaterfallSegment(name=name, ns=segments[name]) for name in ORDER if segments.get(name)]
