"""zero_grad and the optimizer run a tiny kernel for each parameter (the TorchBench paper, listing 2)."""

import numpy as np

from tare.findings import Context, Location, Match, flat, rule
from tare.trace.intervals import Integers, Intervals, make

TINY_NS = 5_000
# A foreach optimizer needs a handful of kernels, whatever the number of parameters.
HANDFUL = 6
FEWEST = 16


@rule("Use foreach=True or fused=True in the optimizer, and zero_grad(set_to_none=True).")
def tiny_optimizer_kernels(context: Context) -> Match | None:
    """zero_grad or the optimizer launches at least 16 kernels a step, half of them under 5 µs."""
    operators, calls, device = context.trace.operators, context.trace.calls, context.trace.device
    # An optimizer's or a module's zero_grad calls aten::zero_ outside of any other operator.
    zeros = context.operators("aten::zero_", "aten::fill_")
    zeroing = context.calls_under(zeros[operators.parent[zeros] < 0])
    stepping = context.calls_during(context.marked(r"^Optimizer\.step#"))
    removable, locations, kernels = [], [], 0
    for label, rows, kept in (("zero_grad", zeroing, 0), ("Optimizer.step", stepping, HANDFUL * context.steps)):
        launching = rows[np.isin(rows, device.call[device.kernels])]
        launched = context.activities_of(launching)
        if context.per_step(len(launched)) < FEWEST / 2 or np.median(device.duration[launched]) > TINY_NS:
            continue
        kernels += len(launched)
        # Evenly spaced calls stay: the few that a joint kernel needs.
        removable.append(np.delete(launching, np.linspace(0, len(launching) - 1, kept).astype(int)))
        host_s = context.seconds(operators, context.roots(calls.operator[rows]))
        locations.append(Location(where=label, count=context.per_step(len(launched)), seconds=host_s))
    count, removed = context.per_step(kernels), flat(removable)
    if count < FEWEST or len(removed) == 0:
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
        spans=device.intervals(activities),
    )


def _host_time(context: Context, calls: Integers) -> Intervals:
    """The host's way to each of these calls: from the call before it on the same thread."""
    table, operator = context.trace.calls, context.trace.calls.operator[calls]
    start = table.start[calls]
    start[operator >= 0] = context.trace.operators.start[context.root[operator[operator >= 0]]]
    follows = np.isin(calls - 1, calls) & (table.thread[calls - 1] == table.thread[calls])
    start[follows] = np.minimum(start, table.end[calls - 1])[follows]
    return make(start, table.end[calls])
