"""The device waits for the next batch."""

from tare.findings import Context, Location, Match, WhatIf, rule, spans_of


@rule(
    "loader-starvation",
    sees="The device is idle while a DataLoader is asked for the next batch.",
    remedy="Give the DataLoader more workers (num_workers, persistent_workers, prefetch_factor) or cheaper "
    "samples.",
)
def look(context: Context) -> Match | None:
    # Versions of the profiler file the mark under annotations or under operators.
    for table in (context.trace.annotations, context.trace.operators):
        rows = context.matching(table, r"^enumerate\(DataLoader\)#")
        if len(rows) == 0:
            continue
        batches, seconds = context.per_step(len(rows)), context.seconds(table, rows)
        name = context.trace.name(table, int(rows[0])).partition("#")[2]
        return Match(
            summary=f"the device waits for batches: {batches:.3g} a step",
            evidence={"batches_per_step": batches, "loading_s_per_step": seconds},
            locations=[Location(where=name, count=batches, seconds=seconds)],
            saving_s=context.saving(WhatIf(removed=spans_of(table, rows))),
            spans=spans_of(table, rows),
        )
    return None
