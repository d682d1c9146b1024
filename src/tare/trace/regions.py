"""The regions that a program marked (tare.stopwatch, torch.profiler.record_function), and their time in a step."""

import msgspec

from tare.trace.intervals import Mask, contains, distinct, total
from tare.trace.names import step_number
from tare.trace.tables import Trace
from tare.trace.windows import in_counted_steps

# Annotations that tare's own recording makes.
OWN = "tare::"


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """All entries of one region in the counted steps; times in ns of the profiled run. Regions may contain each
    other, so their times need not add up to the steps."""

    name: str
    calls: int
    # The host's time inside, and the time in which the device ran what was launched while it was open.
    host: int
    device: int


def regions(trace: Trace) -> list[Region]:
    """Sorted by the host's time, the longest first. What torch marks itself (an optimizer's step, a data loader)
    is among them."""
    annotations = trace.annotations
    named = trace.matching(annotations, lambda name: step_number(name) is None and not name.startswith(OWN))
    marked = named & (annotations.device == 0) & in_counted_steps(trace, annotations.start)
    codes = distinct(annotations.name[marked])
    table = [_region(trace, marked & (annotations.name == code)) for code in codes.tolist()]
    return sorted(table, key=lambda region: (-region.host, region.name))


def _region(trace: Trace, rows: Mask) -> Region:
    entries = trace.annotations.take(rows)
    work = trace.device.take(trace.device.call >= 0)
    # By any thread: autograd launches the backward pass from one of its own.
    launched_inside = contains(entries.intervals(), trace.calls.start[work.call])
    return Region(
        name=trace.name(entries, 0),
        calls=len(entries),
        host=total(entries.intervals()),
        device=total(work.intervals(launched_inside)),
    )
