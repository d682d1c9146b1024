"""zero_grad and the optimizer run a tiny kernel for each parameter (the TorchBench paper, listing 2)."""

import numpy as np

from tare.findings import Context, Location, Match, Span, rule, spans_of
from tare.trace.tables import Integers

TINY_NS = 5_000
# A foreach optimizer needs a handful of kernels, whatever the number of parameters.
HANDFUL = 6
FEWEST = 16


@rule(
    "tiny-optimizer-kernels",
    sees="zero_grad or the optimizer launches at least 16 kernels a step, half of them under 5 µs.",
    remedy="Use foreach=True or fused=True in the optimizer, and zero_grad(set_to_none=True).",
)
def look(context: Context) -> Match | None:
    marks, calls, device = context.trace.annotations, context.trace.calls, context.trace.device
    zeroing = _zeroing_calls(context)
    stepping = context.calls_during(marks, context.matching(marks, r"^Optimizer\.step#"))
    removed, locations, kernels = zeroing[:0], [], 0
    for label, rows, kept in (("zero_grad", zeroing, 0), ("Optimizer.step", stepping, HANDFUL)):
        launching = rows[np.isin(rows, device.call[device.kernels])]
        launched = context.activities_of(launching)
        if context.per_step(len(launched)) < FEWEST / 2 or np.median(device.duration[launched]) > TINY_NS:
            continue
        kernels += len(launched)
        removed = np.union1d(removed, _all_but(launching, kept * context.steps))
        host_s = context.seconds(context.trace.operators, context.roots(calls.operator[rows]))
        locations.append(Location(where=label, count=context.per_step(len(launched)), seconds=host_s))
    count = context.per_step(kernels)
    if count < FEWEST:
        return None
    activities = context.activities_of(removed)
    return Match(
        summary=f"{count:.0f} tiny kernels a step in {' and '.join(location.where for location in locations)}",
        evidence={
            "kernels_per_step": count,
            "median_kernel_us": float(np.median(device.duration[activities])) / 1e3,
        },
        locations=locations,
        saving_s=context.saving(context.without(removed, _host_time(context, removed))),
        spans=spans_of(device, activities),
    )


def _zeroing_calls(context: Context) -> Integers:
    """Calls under an outermost aten::zero_: those of an optimizer's or a module's zero_grad."""
    zeros = context.operators("aten::zero_", "aten::fill_")
    return context.calls_under(zeros[context.trace.operators.parent[zeros] < 0])


def _all_but(calls: Integers, kept: int) -> Integers:
    """Evenly spaced calls stay: the few that a joint kernel needs."""
    if kept == 0 or len(calls) <= kept:
        return calls if kept == 0 else calls[:0]
    return np.delete(calls, np.linspace(0, len(calls) - 1, kept).astype(int))


def _host_time(context: Context, calls: Integers) -> list[Span]:
    """The host's way to each of these calls: from the call before it on the same thread."""
    table, removed = context.trace.calls, set(calls.tolist())
    spans = []
    for row in calls.tolist():
        root = context.roots(table.operator[row : row + 1])
        start = int(context.trace.operators.start[root[0]]) if len(root) else int(table.start[row])
        if row - 1 in removed and table.thread[row - 1] == table.thread[row]:
            start = min(start, int(table.end[row - 1]))
        spans.append((start, int(table.end[row])))
    return spans
