"""The step consists of many short kernels, and the host launches them more slowly than the device runs them."""

import numpy as np

from tare.findings import Context, Location, Match, WhatIf, grouped, rule
from tare.findings.rules.host_bound import LOADING_OR_COMPILING, idle_stretches
from tare.trace.idle import host_waits
from tare.trace.intervals import complement, union
from tare.trace.serving import request_pauses
from tare.trace.spans import pick, rows_by_value
from tare.trace.tables import GRAPH, LAUNCH, Integers

FEWEST_LAUNCHES = 10
LEAST_SHARE = 0.15
# Within a graph a kernel starts when the previous one has ended: on an H200 eleven workloads take as graphs what
# their kernels take, within a tenth, while queued kernels start 1 us or more after each other.
HANDOVER_NS = 100
REMEDY = "Capture the step in a CUDA graph, or compile it with torch.compile(mode='reduce-overhead')"


@rule(f"{REMEDY}.")
def launch_bound(context: Context) -> Match | None:
    """At least 10 launches a step, and 15 % of it or more would go if the kernels were launched as one graph."""
    calls, operators, waits = context.trace.calls, context.trace.operators, context.waits
    inside = context.inside(calls)
    launches = np.flatnonzero(inside & (calls.kind == LAUNCH))
    if context.per_step(len(launches)) < FEWEST_LAUNCHES:
        return None
    # A graph replaces the host's way from launch to launch. Long stretches, loading, compiling, and what waits for
    # requests or for the device (which cannot be captured) remain. So does a capture: it is what a graph needs.
    waiting = union(
        operators.intervals(context.roots(calls.operator[waits])),
        calls.intervals(waits),
        host_waits(context.trace),
        request_pauses(context.trace),
    )
    kept = union(idle_stretches(context), context.marked(LOADING_OR_COMPILING), waiting, context.capturing)
    removed = complement(kept, context.replay.start, context.replay.end)
    saving = context.saving(WhatIf(removed=removed, handover=HANDOVER_NS))
    if saving < LEAST_SHARE * context.step_s:
        return None
    durations = context.trace.device.duration[context.activities_of(launches)]
    return Match(
        summary=f"the host takes longer to launch {context.per_step(len(launches)):.0f} kernels a step "
        f"than the device to run them",
        evidence={
            "launches_per_step": context.per_step(len(launches)),
            "graphs_per_step": context.per_step(int((inside & (calls.kind == GRAPH)).sum())),
            "median_kernel_us": float(np.median(durations)) / 1e3 if len(durations) else 0.0,
            "step_as_graph_s": context.step_s - saving,
            "waits_per_step": context.per_step(len(waits)),
        },
        locations=_locations(context, launches),
        saving_s=saving,
        remedy=_remedy(context, waits),
    )


def _remedy(context: Context, waits: Integers) -> str | None:
    """Where the step waits for the device, that has to go first: capturing fails there, and compiling breaks."""
    if len(waits) == 0:
        return None
    # One operator may wait with several calls: a copy, and the wait that completes it.
    count = len({_launcher(context, row) for row in waits.tolist()})
    by_location = grouped(waits.tolist(), context.locator.of_call)
    where = max(by_location, key=lambda text: len(by_location[text]))
    first = f"First take out what waits for the device {context.times(count)}, for no graph can hold it"
    return f"{first} (most often at {where}). Then {REMEDY[0].lower()}{REMEDY[1:]}."


def _locations(context: Context, launches: Integers) -> list[Location]:
    """The lines and modules that launch, or the operators that a user calls, by their host time."""
    trace, calls, operators = context.trace, context.trace.calls, context.trace.operators
    root = pick(context.root, calls.operator[launches])
    start, end, name = (
        np.where(root >= 0, pick(of_operator, root), of_call[launches])
        for of_operator, of_call in (
            (operators.start, calls.start),
            (operators.end, calls.end),
            (operators.name, calls.name),
        )
    )
    spans, frames = np.stack([start, end], axis=1), context.locator.frames_of_calls(launches)
    # A text for each kind of launch, in the order in which they come first.
    _, first, kind = np.unique(frames * len(trace.names) + name, return_index=True, return_inverse=True)
    groups = grouped(
        np.argsort(first).tolist(),
        lambda one: context.locator.of_frame(int(frames[first[one]])) or trace.names[int(name[first[one]])],
    )
    by_kind = rows_by_value(kind.reshape(-1))
    rows = {where: np.concatenate([by_kind[one] for one in group]) for where, group in groups.items()}
    return [context.location(where, spans[chosen], len(chosen)) for where, chosen in rows.items()]


def _launcher(context: Context, call: int) -> tuple[str, int, int]:
    """Name, start and end of the outermost operator around a call, or of the call itself."""
    trace, operator = context.trace, int(context.trace.calls.operator[call])
    table, row = (trace.operators, int(context.root[operator])) if operator >= 0 else (trace.calls, call)
    return trace.name(table, row), int(table.start[row]), int(table.end[row])
