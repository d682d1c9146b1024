"""A compiled function falls back to Python in its middle: the rest is a compiled region within the first."""

import re

import numpy as np

from tare.findings import Context, Match, WhatIf, rule
from tare.trace.tables import Integers

_REGION = r"^Torch-Compiled Region"
_LOOKUP = r"^TorchDynamo Cache Lookup"
_GRAPH = r"^## Call CompiledFxGraph"
# Marks that the compiler puts around the operators of a graph.
_MARK = re.compile(rf"{_REGION}|{_GRAPH}|^CompiledFunction|^AOTDispatcher|^Pregraph bytecode")


@rule("Remove what breaks the graph (TORCH_LOGS=graph_breaks names it), then compile with fullgraph=True.")
def graph_breaks(context: Context) -> Match | None:
    """A compiled region runs within another one: dynamo could not compile what stands between them."""
    table = context.trace.operators
    regions = context.matching(table, _REGION)
    nested = regions[table.parent[regions] >= 0]
    outer = context.owners(regions)[table.parent[nested]]
    inner, outer = nested[outer >= 0].tolist(), outer[outer >= 0].tolist()
    breaks = context.per_step(len(inner))
    if breaks < 1:
        return None
    lookups, graphs = context.matching(table, _LOOKUP), context.marked(_GRAPH).tolist()
    pairs = zip(inner, outer, strict=True)
    lost = [_lost_time(context, region, around, regions, lookups, graphs) for region, around in pairs]
    spans = [span for region_spans in lost for span in region_spans]
    return Match(
        summary=f"a compiled function goes back to Python in its middle {context.times(len(inner))}",
        evidence={"breaks_per_step": breaks, "regions_per_step": context.per_step(len(regions))},
        locations=[
            context.location(_resumed_line(context, row) or context.trace.name(table, row), region_spans)
            for row, region_spans in zip(inner, lost, strict=True)
        ],
        saving_s=context.saving(WhatIf(removed=spans)),
        # A break also prevents fusion across it, which no trace shows. So it is always reported, and several
        # breaks are more severe than one.
        bound="at least",
        severity="medium" if breaks >= 3 else "low",
        spans=spans,
    )


def _lost_time(
    context: Context, region: int, outer: int, regions: Integers, lookups: Integers, graphs: list[list[int]]
) -> list[tuple[int, int]]:
    """Host time that one graph would not need: from the last launch before the break to the end of its graph, from
    the lookup of the compiled rest to the first launch of that, and from the end of its graph to its return.

    What lies between the graph and the lookup stays. It is the program's own, and no shorter than the way from one
    operator to the next within one graph."""
    table, calls = context.trace.operators, context.trace.calls
    start, end, thread = int(table.start[region]), int(table.end[region]), table.thread[region]
    before = lookups[(lookups < region) & (table.thread[lookups] == thread)]
    resumed = int(table.start[before[-1]]) if len(before) else start
    launching = np.unique(context.trace.device.call[context.launched])
    launching = launching[calls.thread[launching] == thread]
    later = launching[(calls.start[launching] >= resumed) & (calls.end[launching] <= end)]
    earlier = launching[(calls.start[launching] >= table.start[outer]) & (calls.end[launching] <= resumed)]
    spans = []
    if len(earlier):
        done = _launching_operator(context, int(earlier[-1]))[1]
        spans += [
            (done, graph_end) for graph_start, graph_end in graphs if graph_start < done < graph_end <= resumed
        ]
    if len(later):
        spans.append((resumed, _launching_operator(context, int(later[0]))[0]))
    # Dynamo puts everything behind a break into the region of the rest: what follows its last graph only returns.
    nested = table.end[regions[regions > region]].tolist()
    ends = [*nested, *(graph_end for graph_start, graph_end in graphs if graph_start > start)]
    return [*spans, (max((moment for moment in ends if moment <= end), default=end), end)]


def _launching_operator(context: Context, call: int) -> tuple[int, int]:
    """Start and end of the graph's operator that made a call; of the call itself where none did."""
    table, calls = context.trace.operators, context.trace.calls
    row, operator = int(calls.operator[call]), -1
    while row >= 0 and not _MARK.search(context.trace.name(table, row)):
        row, operator = int(table.parent[row]), row
    if operator < 0:
        return int(calls.start[call]), int(calls.end[call])
    return int(table.start[operator]), int(table.end[operator])


def _resumed_line(context: Context, region: int) -> str:
    """The source line at which dynamo went on, from the name that it gives to the rest of the function."""
    frames, table = context.trace.frames, context.trace.operators
    rows = context.matching(frames, r"torch_dynamo_resume_in_")
    rows = rows[(frames.start[rows] >= table.start[region]) & (frames.end[rows] <= table.end[region])]
    return context.trace.name(frames, int(rows[0])) if len(rows) else ""
