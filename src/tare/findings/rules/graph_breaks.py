"""A compiled function falls back to Python in its middle: its rest is a compiled region within the first."""

from collections.abc import Iterator

import numpy as np

from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.findings.scene import Scene, merged
from tare.trace.tables import Integers

_REGION = r"^Torch-Compiled Region"
_LOOKUP = r"^TorchDynamo Cache Lookup"
_GRAPH = r"^## Call CompiledFxGraph|^CompiledFunction|^AOTDispatcher Runtime Wrapper Prologue"


@rule(
    "graph-breaks",
    sees="A compiled region runs within another one: dynamo could not compile what stands between them.",
    remedy="Remove what breaks the graph (TORCH_LOGS=graph_breaks names it), then compile with fullgraph=True.",
)
def look(scene: Scene) -> Iterator[Hit]:
    table = scene.trace.operators
    regions = scene.matching(table, _REGION)
    inner = regions[_within(scene, regions)]
    if scene.per_step(len(inner)) < 1:
        return
    spans = [_entry(scene, row) for row in inner.tolist()]
    yield Hit(
        summary=f"graph breaks: {scene.per_step(len(inner)):.3g} a step",
        evidence={"breaks_per_step": scene.per_step(len(inner)), "regions_per_step": scene.per_step(len(regions))},
        places=[
            Place(
                where=_resumed(scene, row) or scene.trace.name(table, row),
                count=1 / scene.steps,
                seconds=(end - start) / scene.steps / 1e9,
            )
            for row, (start, end) in zip(inner.tolist(), spans, strict=True)
        ],
        gain_s=scene.price(Edit(removed=merged(spans))),
        # A break also keeps kernels from being fused across it, which a trace cannot price: shown in any case.
        severity="medium" if scene.per_step(len(inner)) >= 3 else "low",
        spans=spans[:200],
    )


def _within(scene: Scene, regions: Integers) -> list[bool]:
    """Which regions have another one around them."""
    table, known = scene.trace.operators, set(regions.tolist())
    found = []
    for row in regions.tolist():
        above = int(table.parent[row])
        while above >= 0 and above not in known:
            above = int(table.parent[above])
        found.append(above >= 0)
    return found


def _entry(scene: Scene, region: int) -> tuple[int, int]:
    """From the lookup of the compiled code to where its graph begins."""
    table, marks = scene.trace.operators, scene.trace.annotations
    lookups = scene.matching(table, _LOOKUP)
    before = lookups[lookups < region]
    start = int(table.start[before[-1]]) if len(before) else int(table.start[region])
    ends = [
        int(source.start[row])
        for source in (table, marks)
        for row in scene.matching(source, _GRAPH).tolist()
        if source.start[row] >= table.start[region]
    ]
    return start, min(ends, default=int(table.start[region]))


def _resumed(scene: Scene, region: int) -> str:
    """The source line at which dynamo went on, from the name that it gives to the rest of the function."""
    frames, table = scene.trace.frames, scene.trace.operators
    rows = scene.matching(frames, r"torch_dynamo_resume_in_")
    rows = rows[(frames.start[rows] >= table.start[region]) & (frames.end[rows] <= table.end[region])]
    return scene.trace.name(frames, int(rows[np.argmin(frames.start[rows])])) if len(rows) else ""
