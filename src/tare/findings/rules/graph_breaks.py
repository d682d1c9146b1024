"""A compiled function falls back to Python in its middle: its rest is a compiled region within the first."""

import re
from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, merged
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.trace.tables import Integers

_REGION = r"^Torch-Compiled Region"
_LOOKUP = r"^TorchDynamo Cache Lookup"
_GRAPH = r"^## Call CompiledFxGraph"
# Marks of the compiler around the operators of a graph.
_MARK = re.compile(rf"{_REGION}|{_GRAPH}|^CompiledFunction|^AOTDispatcher|^Pregraph bytecode")


@rule(
    "graph-breaks",
    sees="A compiled region runs within another one: dynamo could not compile what stands between them.",
    remedy="Remove what breaks the graph (TORCH_LOGS=graph_breaks names it), then compile with fullgraph=True.",
)
def look(scene: Scene) -> Iterator[Hit]:
    table = scene.trace.operators
    regions = scene.matching(table, _REGION)
    above = {row: _region_above(scene, row, regions) for row in regions.tolist()}
    inner = [row for row, outer in above.items() if outer >= 0]
    if scene.per_step(len(inner)) < 1:
        return
    launching = {thread: _launching(scene, thread) for thread in np.unique(table.thread[inner]).tolist()}
    lost = {row: _lost(scene, row, above[row], launching[int(table.thread[row])]) for row in inner}
    spans = merged([span for found in lost.values() for span in found])
    yield Hit(
        summary=f"a compiled function goes back to Python in its middle {scene.times(len(inner))}",
        evidence={"breaks_per_step": scene.per_step(len(inner)), "regions_per_step": scene.per_step(len(regions))},
        places=[
            Place(
                where=_resumed(scene, row) or scene.trace.name(table, row),
                count=1 / scene.steps,
                seconds=sum(end - start for start, end in found) / scene.steps / 1e9,
            )
            for row, found in lost.items()
        ],
        gain_s=scene.price(Edit(removed=spans)),
        # A break also keeps kernels from being fused across it, which a trace cannot price: shown in any case, and
        # more severe for several than for one.
        at_least=True,
        severity="medium" if scene.per_step(len(inner)) >= 3 else "low",
        spans=spans[:200],
    )


def _region_above(scene: Scene, region: int, regions: Integers) -> int:
    """The region around this one, or -1."""
    table, known = scene.trace.operators, set(regions.tolist())
    above = int(table.parent[region])
    while above >= 0 and above not in known:
        above = int(table.parent[above])
    return above


def _lost(scene: Scene, region: int, outer: int, launching: Integers) -> list[tuple[int, int]]:
    """Host time that one graph would not need: from the last launch before the break to the end of its graph, from
    the lookup of the compiled rest to that one's first launch, and from the end of its graph to its return.

    What lies between the graph and the lookup stays: the program's own, and no less than the way that would lead
    from one operator to the next within one graph."""
    table, calls = scene.trace.operators, scene.trace.calls
    lookups = scene.matching(table, _LOOKUP)
    before = lookups[(lookups < region) & (table.thread[lookups] == table.thread[region])]
    resumed = int(table.start[before[-1]]) if len(before) else int(table.start[region])
    graphs = scene.marked(_GRAPH).tolist()
    rest = launching[(calls.start[launching] >= resumed) & (calls.end[launching] <= table.end[region])]
    ahead = launching[(calls.start[launching] >= table.start[outer]) & (calls.end[launching] <= resumed)]
    spans = []
    if len(ahead):
        done = _operator_of(scene, int(ahead[-1]))[1]
        spans += [(done, end) for start, end in graphs if start < done < end <= resumed]
    if len(rest):
        spans.append((resumed, _operator_of(scene, int(rest[0]))[0]))
    # Dynamo puts all that follows a break into the region of the rest: behind it nothing is left but to return.
    inner = scene.matching(table, _REGION)
    inner = inner[(inner > region) & (table.end[inner] <= table.end[region])]
    ends = [*table.end[inner].tolist(), *(end for start, end in graphs if start > table.start[region])]
    last = max((end for end in ends if end <= table.end[region]), default=int(table.end[region]))
    return [*spans, (last, int(table.end[region]))]


def _launching(scene: Scene, thread: int) -> Integers:
    """Calls of a thread within the steps that launched something."""
    calls = scene.trace.calls
    launched = np.isin(np.arange(len(calls)), scene.trace.device.call)
    return np.flatnonzero(launched & (calls.thread == thread) & scene.inside(calls))


def _operator_of(scene: Scene, call: int) -> tuple[int, int]:
    """Start and end of the graph's operator that made a call; of the call itself where none did."""
    table, calls = scene.trace.operators, scene.trace.calls
    row, found = int(calls.operator[call]), -1
    while row >= 0 and not _MARK.search(scene.trace.name(table, row)):
        row, found = int(table.parent[row]), row
    of, at = (table, found) if found >= 0 else (calls, call)
    return int(of.start[at]), int(of.end[at])


def _resumed(scene: Scene, region: int) -> str:
    """The source line at which dynamo went on, from the name that it gives to the rest of the function."""
    frames, table = scene.trace.frames, scene.trace.operators
    rows = scene.matching(frames, r"torch_dynamo_resume_in_")
    rows = rows[(frames.start[rows] >= table.start[region]) & (frames.end[rows] <= table.end[region])]
    return scene.trace.name(frames, int(rows[np.argmin(frames.start[rows])])) if len(rows) else ""
