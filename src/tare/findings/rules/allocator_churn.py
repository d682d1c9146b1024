"""Device memory is asked for and given back within the step: each time the driver works, and often the device
stops."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.trace.tables import ALLOCATE


@rule(
    "allocator-churn",
    sees="cudaMalloc, cudaFree or their kin are called in every step.",
    remedy="Drop empty_cache() from the loop, keep shapes steady, or set expandable_segments in "
    "PYTORCH_ALLOC_CONF.",
)
def look(scene: Scene) -> Iterator[Hit]:
    calls = scene.trace.calls
    rows = np.flatnonzero((calls.kind == ALLOCATE) & scene.inside(calls))
    if not scene.in_every_step(calls, rows):
        return
    yield Hit(
        summary=f"{scene.times(len(rows))} memory is taken from the driver or given back",
        evidence={"calls_per_step": scene.per_step(len(rows))},
        places=[
            Place(
                where=f"{scene.trace.name(calls, found[0])} at {where}",
                count=scene.per_step(len(found)),
                seconds=float(calls.duration[found].sum()) / scene.steps / 1e9,
            )
            for where, found in scene.places.of_calls(rows).items()
        ],
        gain_s=scene.price(scene.drop(rows)),
        spans=spans_of(calls, rows),
    )
