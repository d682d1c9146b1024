"""A compiled function falls back to Python in its middle: the rest is a compiled region within the first."""

import re

import numpy as np

from tare.findings import Context, Location, Match, Span, WhatIf, rule
from tare.trace.tables import Integers

_REGION = r"^Torch-Compiled Region"
_LOOKUP = r"^TorchDynamo Cache Lookup"
_GRAPH = r"^## Call CompiledFxGraph"
# Marks that the compiler puts around the operators of a graph.
_MARK = re.compile(rf"{_REGION}|{_GRAPH}|^CompiledFunction|^AOTDispatcher|^Pregraph bytecode")


@rule(
    "graph-breaks",
    sees="A compiled region runs within another one: dynamo could not compile what stands between them.",
    remedy="Remove what breaks the graph (TORCH_LOGS=graph_breaks names it), then compile with fullgraph=True.",
)
def look(context: Context) -> Match | None:
    table = context.trace.operators
    regions = context.matching(table, _REGION)
    enclosing = {row: _enclosing_region(context, row, regions) for row in regions.tolist()}
    inner = [row for row, outer in enclosing.items() if outer >= 0]
    breaks = context.per_step(len(inner))
    if breaks < 1:
        return None
    launching = {thread: _launching_calls(context, thread) for thread in np.unique(table.thread[inner]).tolist()}
    lost = {row: _lost_time(context, row, enclosing[row], launching[int(table.thread[row])]) for row in inner}
    spans = [span for row_spans in lost.values() for span in row_spans]
    return Match(
        summary=f"a compiled function goes back to Python in its middle {context.times(len(inner))}",
        evidence={"breaks_per_step": breaks, "regions_per_step": context.per_step(len(regions))},
        locations=[
            Location(
                where=_resumed_line(context, row) or context.trace.name(table, row),
                count=1 / context.steps,
                seconds=sum(end - start for start, end in row_spans) / context.steps / 1e9,
            )
            for row, row_spans in lost.items()
        ],
        saving_s=context.saving(WhatIf(removed=spans)),
        # A break also prevents fusion across it, which no trace shows. So it is always reported, and several
        # breaks are more severe than one.
        bound="at least",
        severity="medium" if breaks >= 3 else "low",
        spans=spans,
    )


def _enclosing_region(context: Context, region: int, regions: Integers) -> int:
    """The region around this one, or -1."""
    table, known = context.trace.operators, set(regions.tolist())
    parent = int(table.parent[region])
    while parent >= 0 and parent not in known:
        parent = int(table.parent[parent])
    return parent


def _lost_time(context: Context, region: int, outer: int, launching: Integers) -> list[Span]:
    """Host time that one graph would not need: from the last launch before the break to the end of its graph, from
    the lookup of the compiled rest to the first launch of that, and from the end of its graph to its return.

    What lies between the graph and the lookup stays. It is the program's own, and no shorter than the way from one
    operator to the next within one graph."""
    table, calls = context.trace.operators, context.trace.calls
    lookups = context.matching(table, _LOOKUP)
    before = lookups[(lookups < region) & (table.thread[lookups] == table.thread[region])]
    resumed = int(table.start[before[-1]]) if len(before) else int(table.start[region])
    graphs = context.marked(_GRAPH).tolist()
    later = launching[(calls.start[launching] >= resumed) & (calls.end[launching] <= table.end[region])]
    earlier = launching[(calls.start[launching] >= table.start[outer]) & (calls.end[launching] <= resumed)]
    spans = []
    if len(earlier):
        done = _launching_operator(context, int(earlier[-1]))[1]
        spans += [(done, end) for start, end in graphs if start < done < end <= resumed]
    if len(later):
        spans.append((resumed, _launching_operator(context, int(later[0]))[0]))
    # Dynamo puts everything behind a break into the region of the rest: what follows its last graph only returns.
    nested = context.matching(table, _REGION)
    nested = nested[(nested > region) & (table.end[nested] <= table.end[region])]
    ends = [*table.end[nested].tolist(), *(end for start, end in graphs if start > table.start[region])]
    last = max((end for end in ends if end <= table.end[region]), default=int(table.end[region]))
    return [*spans, (last, int(table.end[region]))]


def _launching_calls(context: Context, thread: int) -> Integers:
    """Calls of a thread within the steps that launched something."""
    calls = context.trace.calls
    launched = np.isin(np.arange(len(calls)), context.trace.device.call)
    return np.flatnonzero(launched & (calls.thread == thread) & context.inside(calls))


def _launching_operator(context: Context, call: int) -> Span:
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
    return context.trace.name(frames, int(rows[np.argmin(frames.start[rows])])) if len(rows) else ""
