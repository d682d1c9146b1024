"""The step consists of many short kernels, and the host launches them more slowly than the device runs them."""

import numpy as np

from tare.findings import Context, Location, Match, WhatIf, as_spans, rule
from tare.findings.replay import blocking_calls
from tare.findings.rules.host_bound import LOADING_OR_COMPILING, idle_stretches
from tare.trace.intervals import Intervals, difference, make, union
from tare.trace.tables import GRAPH, LAUNCH, Integers

FEWEST_LAUNCHES = 10
LEAST_SHARE = 0.15
# Within a graph a kernel starts when the previous one has ended: on an H200 eleven workloads take as graphs what
# their kernels take, within a tenth, while queued kernels start 1 us or more after each other.
HANDOVER_NS = 100
REMEDY = "Capture the step in a CUDA graph, or compile it with torch.compile(mode='reduce-overhead')"


@rule(
    "launch-bound",
    sees="At least 10 launches a step, and 15 % of it or more would go if the kernels were launched as one graph.",
    remedy=f"{REMEDY}.",
)
def look(context: Context) -> Match | None:
    calls = context.trace.calls
    inside = context.inside(calls)
    launches = np.flatnonzero(inside & (calls.kind == LAUNCH))
    if context.per_step(len(launches)) < FEWEST_LAUNCHES:
        return None
    # A graph replaces the host's way from launch to launch. Long stretches, loading, compiling, and what waits for
    # the device (which cannot be captured) remain.
    waits = _waits(context)
    kept = union(idle_stretches(context), context.marked(LOADING_OR_COMPILING), _waiting_operators(context, waits))
    removed = difference(make([context.replay.start], [context.replay.end]), kept)
    saving = context.saving(WhatIf(removed=as_spans(removed), handover=HANDOVER_NS))
    if saving < LEAST_SHARE * context.step_s:
        return None
    kernels = context.activities_of(launches)
    return Match(
        summary=f"the host takes longer to launch {context.per_step(len(launches)):.0f} kernels a step "
        f"than the device to run them",
        evidence={
            "launches_per_step": context.per_step(len(launches)),
            "graphs_per_step": context.per_step(int((inside & (calls.kind == GRAPH)).sum())),
            "median_kernel_us": float(np.median(context.trace.device.duration[kernels])) / 1e3
            if len(kernels)
            else 0.0,
            "step_as_graph_s": context.step_s - saving,
            "waits_per_step": context.per_step(len(waits)),
        },
        locations=_locations(context, launches),
        saving_s=saving,
        remedy=_remedy(context, waits),
    )


def _waits(context: Context) -> Integers:
    """Calls within the steps that may hold the host until the device is done: no graph can contain them."""
    calls = context.trace.calls
    rows = np.flatnonzero(blocking_calls(context.trace) & context.inside(calls))
    return rows[~np.isin(rows, list(context.profiler_syncs))]


def _waiting_operators(context: Context, waits: Integers) -> Intervals:
    calls = context.trace.calls
    roots = context.roots(calls.operator[waits])
    return union(context.trace.operators.intervals(roots), calls.intervals(waits))


def _remedy(context: Context, waits: Integers) -> str | None:
    """Where the step waits for the device, that has to go first: capturing fails there, and compiling breaks."""
    if len(waits) == 0:
        return None
    # One operator may wait with several calls: a copy, and the wait that completes it.
    count = len({_launcher(context, row) for row in waits.tolist()})
    where = max(context.locator.of_calls(waits).items(), key=lambda item: len(item[1]))[0]
    first = f"First take out what waits for the device {context.times(count)}, for no graph can hold it"
    return f"{first} (most often at {where}). Then {REMEDY[0].lower()}{REMEDY[1:]}."


def _locations(context: Context, launches: Integers) -> list[Location]:
    """The lines and modules that launch, or the operators that a user calls, by their host time."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for call in launches.tolist():
        table, row = _launcher(context, call)
        name = context.trace.name(getattr(context.trace, table), row)
        groups.setdefault(context.locator.line_of_call(call) or name, []).append((table, row))
    return [
        Location(
            where=where,
            count=context.per_step(len(launchers)),
            seconds=sum(context.seconds(getattr(context.trace, table), row) for table, row in set(launchers)),
        )
        for where, launchers in groups.items()
    ]


def _launcher(context: Context, call: int) -> tuple[str, int]:
    """The outermost operator around a call, or the call itself: the name of a table of the trace, and a row."""
    operator = int(context.trace.calls.operator[call])
    return ("operators", context.root(operator)) if operator >= 0 else ("calls", call)
