"""A compiled function falls back to Python in its middle: its rest is a compiled region within the first."""

import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.findings.scene import Scene, merged
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
    lost = {row: _lost(scene, row, above[row]) for row in inner}
    spans = merged([span for found in lost.values() for span in found])
    yield Hit(
        summary=f"graph breaks: {scene.per_step(len(inner)):.3g} a step",
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
        # A break also keeps kernels from being fused across it, which a trace cannot price: shown in any case.
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


def _lost(scene: Scene, region: int, outer: int) -> list[tuple[int, int]]:
    """Host time that one graph would not need: from the last launch before the break to the end of its graph, and
    from the lookup of the compiled rest to that one's first launch. What the program does between them stays."""
    table, calls = scene.trace.operators, scene.trace.calls
    lookups = scene.matching(table, _LOOKUP)
    before = lookups[(lookups < region) & (table.thread[lookups] == table.thread[region])]
    resumed = int(table.start[before[-1]]) if len(before) else int(table.start[region])
    launching = _launching(scene, int(table.thread[region]))
    spans = []
    rest = launching[(calls.start[launching] >= resumed) & (calls.end[launching] <= table.end[region])]
    if len(rest):
        # Within one graph there would still be a way from the one launch to the other.
        first = _operator_of(scene, int(rest[0]))[0] - _way(scene, launching)
        spans += [(resumed, first)] if first > resumed else []
    ahead = launching[(calls.start[launching] >= table.start[outer]) & (calls.end[launching] <= resumed)]
    if len(ahead):
        done = _operator_of(scene, int(ahead[-1]))[1]
        ends = [int(end) for start, end in scene.marked(_GRAPH) if start < done < end <= resumed]
        spans += [(done, max(ends))] if ends else []
    return spans


def _launching(scene: Scene, thread: int) -> Integers:
    """Calls of a thread within the steps that launched something."""
    calls = scene.trace.calls
    launched = np.isin(np.arange(len(calls)), scene.trace.device.call)
    return np.flatnonzero(launched & (calls.thread == thread) & scene.inside(calls))


def _way(scene: Scene, launching: Integers) -> int:
    """The median host time (ns) between two operators of one graph that launch something; 0 where each has one."""
    graphs, found = scene.marked(_GRAPH), []
    starts = scene.trace.calls.start[launching]
    for start, end in graphs.tolist():
        rows = launching[(starts >= start) & (starts < end)].tolist()
        spans = list(dict.fromkeys(_operator_of(scene, row) for row in rows))
        found += [later[0] - earlier[1] for earlier, later in pairwise(spans)]
    return max(int(np.median(found)), 0) if found else 0


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
