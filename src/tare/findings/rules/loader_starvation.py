"""The device waits for the next batch."""

from collections.abc import Iterator

from tare.findings.context import Scene, merged, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.replay import Edit


@rule(
    "loader-starvation",
    sees="The device is idle while a DataLoader is asked for the next batch.",
    remedy="Give the DataLoader more workers (num_workers, persistent_workers, prefetch_factor) or cheaper "
    "samples.",
)
def look(scene: Scene) -> Iterator[Hit]:
    for table in (scene.trace.annotations, scene.trace.operators):
        rows = scene.matching(table, r"^enumerate\(DataLoader\)#")
        if len(rows) == 0:
            continue
        spans = spans_of(table, rows, most=len(rows))
        seconds = float(table.duration[rows].sum()) / scene.steps / 1e9
        name = scene.trace.name(table, int(rows[0])).partition("#")[2]
        yield Hit(
            summary=f"the device waits for batches: {scene.per_step(len(rows)):.3g} a step",
            evidence={"batches_per_step": scene.per_step(len(rows)), "loading_s_per_step": seconds},
            places=[Place(where=name, count=scene.per_step(len(rows)), seconds=seconds)],
            gain_s=scene.price(Edit(removed=merged(spans))),
            spans=spans[:200],
        )
        return
