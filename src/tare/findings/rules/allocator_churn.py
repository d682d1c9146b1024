"""Device memory is allocated from the driver and released within the step. The driver is slow, and often it stops
the device."""

import numpy as np

from tare.findings import Context, Match, rule
from tare.trace.tables import ALLOCATE


@rule("Drop empty_cache() from the loop, keep shapes steady, or set expandable_segments in PYTORCH_ALLOC_CONF.")
def allocator_churn(context: Context) -> Match | None:
    """cudaMalloc, cudaFree or their like are called in every step."""
    calls, locator = context.trace.calls, context.locator
    rows = np.flatnonzero((calls.kind == ALLOCATE) & context.inside(calls))
    if context.one_stretch or not context.in_every_step(calls, rows):
        return None
    return Match(
        summary=f"{context.times(len(rows))} memory is allocated from the driver or returned to it",
        evidence={"calls_per_step": context.per_step(len(rows))},
        locations=context.locations(
            calls, rows, lambda row: f"{context.trace.name(calls, row)} at {locator.of_call(row)}"
        ),
        saving_s=context.saving(context.without(rows)),
        spans=calls.intervals(rows),
    )
