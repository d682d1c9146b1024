"""The device waits for the next batch."""

from tare.findings import Context, Match, WhatIf, rule


@rule("Give the DataLoader more workers (num_workers, persistent_workers, prefetch_factor) or cheaper samples.")
def loader_starvation(context: Context) -> Match | None:
    """The device is idle while a DataLoader is asked for the next batch."""
    table, rows = context.marks(r"^enumerate\(DataLoader\)#")
    if len(rows) == 0:
        return None
    batches, spans = context.per_step(len(rows)), table.intervals(rows)
    return Match(
        summary=f"the device waits for batches: {batches:.3g} a step",
        evidence={"batches_per_step": batches, "loading_s_per_step": context.seconds(table, rows)},
        locations=context.locations(table, rows, lambda row: context.trace.name(table, row).partition("#")[2]),
        saving_s=context.saving(WhatIf(removed=spans)),
        spans=spans,
    )
