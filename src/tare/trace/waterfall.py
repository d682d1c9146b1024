"""The waterfall of a step: from what physics asks for, layer by layer, up to what a clock measured outside.

Gross is measured without a profiler; the trace only says how it divides. Profiling stretches the host's time and
not the device's, which is stamped by the device itself. So where the profiled step was slower than gross, device
time keeps its length, and idle time, divided as its causes were, is what is left of gross: nothing, where the
device was busy for longer than that. A profiled step that was faster than gross is scaled as a whole.
"""

from collections.abc import Mapping

import msgspec

from tare.trace.breakdown import Breakdown
from tare.trace.hosttime import HostTime
from tare.trace.idle import Idle
from tare.trace.roofline import Floor

# From the bottom up. Allocation, data loading and the tail appear only where there is some.
ORDER = (
    "floor",
    "kernel inefficiency",
    "unfused traffic",
    "kernels",
    "launch gaps",
    "dispatch",
    "allocation",
    "python",
    "data loading",
    "synchronisation",
    "movement",
    "tail",
)
MEANING = {
    "floor": "the counted operations and bytes at this machine's measured peaks",
    "kernel inefficiency": "kernels that take longer than their operations and bytes would",
    "unfused traffic": "results written to memory and read again because each operator has a kernel of its own",
    "kernels": "the device computes (no floor: nothing was counted, or no peaks are known)",
    "launch gaps": "the device waits while a launch is under way, or for its own queue",
    "dispatch": "the host chooses and prepares kernels",
    "allocation": "the host asks the driver for memory",
    "python": "the host runs Python, outside of every operator",
    "data loading": "the host waits for the next batch",
    "synchronisation": "the host waits for a device that has already finished",
    "movement": "copies between host and device beside which nothing is computed",
    "tail": "after the last kernel, until the step ends",
}
UNSEEN = (
    "the operators took less than the counted work needs, and most of the step is in none: what is compiled ahead "
    "computes there unseen, and stands as python"
)
BUSY = "the device was busy for longer under the profiler than a step takes without: it stands as never idle"
_OF_CAUSE = {"launch call": "launch gaps", "device-side waiting": "launch gaps"}


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    ns: int


class Waterfall(msgspec.Struct, frozen=True, kw_only=True):
    """`gross` is the sum of the segments, to the nanosecond. Where it is `profiled`, only shares may be shown."""

    title: str
    gross: int
    profiled: bool = False
    segments: list[Segment]
    notes: list[str]

    def find(self, name: str) -> int:
        return next((segment.ns for segment in self.segments if segment.name == name), 0)

    @property
    def net(self) -> int:
        """What the device computed."""
        return sum(self.find(n) for n in ("floor", "kernel inefficiency", "unfused traffic", "kernels"))


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One segment on two rungs; `removed` is how much less the other has of it."""

    name: str
    ns: int
    against: int
    removed: int


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """What is different between two steps: `parts` adds up to the difference of their gross times."""

    one: str
    other: str
    parts: list[Difference]


def device_waterfall(
    title: str, gross: int, parts: Breakdown, idle: Idle, floor: Floor | None, profiled: bool = False
) -> Waterfall:
    """The waterfall of a step on a device."""
    steps = max(len(parts.steps), 1)
    busy = {"kernels": parts.active, "movement": parts.movement}
    waiting: dict[str, int] = {}
    for cause in idle.causes:
        name = _OF_CAUSE.get(cause.cause, cause.cause)
        waiting[name] = waiting.get(name, 0) + cause.idle
    busy_ns: list[int] = [round(value / steps) for value in busy.values()]
    notes = []
    if sum(busy_ns) > gross:
        found = apportion(gross, busy)
        notes.append(BUSY)
    elif parts.window / steps >= gross and parts.idle > 0:
        found = dict(zip(busy, busy_ns, strict=True)) | apportion(gross - sum(busy_ns), waiting)
    else:
        found = apportion(gross, busy | waiting)
    return _finish(title, gross, found, floor, notes, profiled)


def host_waterfall(
    title: str, gross: int, time: HostTime, floor: Floor | None, profiled: bool = False
) -> Waterfall:
    """The waterfall of a step on the CPU: operators compute, and what only calls them dispatches."""
    weights = {"kernels": time.computed, "dispatch": time.around, "python": time.outside}
    found = apportion(gross, weights)
    notes = [UNSEEN] if floor is not None and found["kernels"] < min(floor.fused, found["python"]) else []
    return _finish(title, gross, found, floor, notes, profiled)


def difference(one: Waterfall, other: Waterfall) -> list[Difference]:
    """Segment by segment; what was removed adds up to the difference of the two gross times."""
    names = [name for name in ORDER if one.find(name) or other.find(name)]
    found = [(name, one.find(name), other.find(name)) for name in names]
    return [Difference(name=name, ns=a, against=b, removed=a - b) for name, a, b in found]


def lowered(fall: Waterfall, floor: Floor, undercut: int) -> Waterfall:
    """The waterfall on a floor that another step, which computes the same, has proved to be lower."""
    if fall.find("floor") <= undercut:
        return fall
    parts = {segment.name: segment.ns for segment in fall.segments}
    parts |= msgspec.structs.replace(floor, fused=undercut).split(fall.net)
    note = (
        f"the same work took another rung's kernels {undercut / 1e6:.3g} ms: that is the floor here, for the "
        f"{floor.fused / 1e6:.3g} ms of the measured peaks is none"
    )
    return msgspec.structs.replace(fall, segments=_in_order(parts), notes=[*fall.notes, note])


def apportion(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """`total` divided in proportion to the weights into integers that add up to it (largest remainders)."""
    whole = sum(weights.values())
    if whole == 0:
        # Nothing to divide by: the whole of it goes to the first.
        return {name: total if i == 0 else 0 for i, name in enumerate(weights)}
    parts = {name: total * weight // whole for name, weight in weights.items()}
    left = total - sum(parts.values())
    for name in sorted(weights, key=lambda n: -(total * weights[n] % whole))[:left]:
        parts[name] += 1
    return parts


def _finish(
    title: str, gross: int, found: dict[str, int], floor: Floor | None, notes: list[str], profiled: bool
) -> Waterfall:
    if floor is not None:
        found = found | floor.split(found.pop("kernels"))
        notes = notes + floor.notes(found)
    return Waterfall(title=title, gross=gross, profiled=profiled, segments=_in_order(found), notes=notes)


def _in_order(found: Mapping[str, int]) -> list[Segment]:
    return [Segment(name=name, ns=found[name]) for name in ORDER if found.get(name)]
