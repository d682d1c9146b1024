"""The same operator on the same shapes takes longer than before: in other kernels (the TorchBench paper, PR
65839), or in the same ones (PR 71904)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tare.findings import Context, Location, Match, WhatIf, flat, grouped, rule
from tare.trace.intervals import EMPTY, make, union
from tare.trace.tables import Integers

OTHER_KERNELS_SLOWER = 1.2
SAME_KERNELS_SLOWER = 1.3
LEAST_SHARE = 0.02


@dataclass(frozen=True)
class ShapedOperator:
    """An operator that a user calls, at one shape, with all that it launches: aten::conv2d, whatever library
    computes it. Times and launches are of one call."""

    label: str
    calls_per_step: float
    host_s: float
    device_s: float
    launches: float
    # The kernel with the most time first.
    kernels: list[str]
    rows: Integers
    activities: Integers


@rule("It fell off a fast path: look at library versions, precision flags, alignment, layout and workspace.")
def kernel_changed(before: Context, after: Context) -> Match | None:
    """Between two traces an operator at equal shapes uses other kernels, and they take at least 1.2 times as
    long."""

    def describe(was: ShapedOperator, now: ShapedOperator) -> str | None:
        slower = now.device_s >= OTHER_KERNELS_SLOWER * was.device_s and {*was.kernels} != {*now.kernels}
        return f"{now.label}: {now.kernels[0][:60]}, was {was.kernels[0][:60]}" if slower else None

    return _match(before, after, "other, slower kernels than before", describe)


@rule(
    "The work within the kernel grew (a check in the inner loop, other data) or the device is slower: "
    "clocks, neighbours."
)
def operator_slowed(before: Context, after: Context) -> Match | None:
    """Between two traces the same kernels of an operator at equal shapes take at least 1.3 times as long."""

    def describe(was: ShapedOperator, now: ShapedOperator) -> str | None:
        ratio, growth_s = now.device_s / was.device_s, (now.device_s - was.device_s) * now.calls_per_step
        slower = ratio >= SAME_KERNELS_SLOWER and {*was.kernels} == {*now.kernels}
        return f"{now.label}: {ratio:.1f} times" if slower and growth_s >= LEAST_SHARE * after.step_s else None

    return _match(before, after, "the same kernels more slowly than before", describe)


def _match(
    before: Context, after: Context, summary: str, describe: Callable[[ShapedOperator, ShapedOperator], str | None]
) -> Match | None:
    """`describe` returns where an operator is and how it changed, or None for one that is not slower."""
    table, earlier = after.trace.operators, _shaped_operators(before)
    removed, locations = EMPTY, []
    factors: dict[int, float] = {}
    for label, now in _shaped_operators(after).items():
        was = earlier.get(label)
        if was is None or not (where := describe(was, now)):
            continue
        locations.append(
            Location(where=where, count=now.calls_per_step, seconds=now.device_s * now.calls_per_step)
        )
        factors |= dict.fromkeys(now.activities.tolist(), was.device_s / now.device_s)
        # Host time under a profiler is unsteady: it counts only where there are more launches than before, which
        # take host time for certain. Which part of an operator's host time goes does not matter: its launches come
        # out of what remains.
        if now.launches >= was.launches + 1:
            kept = table.duration[now.rows] * min(was.host_s / now.host_s, 1.0)
            removed = union(removed, make(table.start[now.rows] + kept.astype(np.int64), table.end[now.rows]))
    if not locations:
        return None
    return Match(
        summary=f"{len(locations)} operators run {summary}",
        evidence={"operators": len(locations), "device_s_per_step": sum(place.seconds for place in locations)},
        locations=locations,
        saving_s=after.saving(WhatIf(removed=removed, factors=factors)),
        spans=after.trace.device.intervals(list(factors)),
    )


def _shaped_operators(context: Context) -> dict[str, ShapedOperator]:
    """Those that launch kernels within the steps, by label."""
    trace, table, device = context.trace, context.trace.operators, context.trace.device

    def label(row: int) -> str:
        # Writers of traces put blanks in different places.
        shape = "".join(trace.inputs_of(row).dims.decode(errors="replace").split())
        return f"{trace.name(table, row)} {shape}".strip()

    outermost = np.flatnonzero((context.called == np.arange(len(table))) & context.inside(table))
    launched = context.activities_by(outermost)
    operators = {}
    for text, group in grouped(outermost.tolist(), label).items():
        rows, activities = np.array(group), flat(launched[row] for row in group)
        kernels = activities[device.kernels[activities]]
        times = {
            name: int(device.duration[same].sum())
            for name, same in grouped(kernels.tolist(), lambda kernel: trace.name(device, kernel)).items()
        }
        host_ns, device_ns = int(table.duration[rows].sum()), sum(times.values())
        if host_ns and device_ns:
            operators[text] = ShapedOperator(
                label=text,
                calls_per_step=context.per_step(len(rows)),
                host_s=host_ns / len(rows) / 1e9,
                device_s=device_ns / len(rows) / 1e9,
                launches=len(kernels) / len(rows),
                kernels=sorted(times, key=lambda name: -times[name]),
                rows=rows,
                activities=activities,
            )
    return operators
