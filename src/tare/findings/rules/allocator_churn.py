"""Device memory is allocated from the driver and released within the step. The driver is slow, and often it stops
the device."""

import numpy as np

from tare.findings import Context, Location, Match, rule, spans_of
from tare.trace.tables import ALLOCATE


@rule(
    "allocator-churn",
    sees="cudaMalloc, cudaFree or their like are called in every step.",
    remedy="Drop empty_cache() from the loop, keep shapes steady, or set expandable_segments in "
    "PYTORCH_ALLOC_CONF.",
)
def look(context: Context) -> Match | None:
    calls = context.trace.calls
    rows = np.flatnonzero((calls.kind == ALLOCATE) & context.inside(calls))
    if not context.in_every_step(calls, rows):
        return None
    return Match(
        summary=f"{context.times(len(rows))} memory is allocated from the driver or returned to it",
        evidence={"calls_per_step": context.per_step(len(rows))},
        locations=[
            Location(
                where=f"{context.trace.name(calls, group[0])} at {where}",
                count=context.per_step(len(group)),
                seconds=context.seconds(calls, group),
            )
            for where, group in context.locator.of_calls(rows).items()
        ],
        saving_s=context.saving(context.without(rows)),
        spans=spans_of(calls, rows),
    )
