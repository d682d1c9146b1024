"""The device does the same as before, and the host takes longer to launch it (the TorchBench paper, PR 87855 and
61056)."""

from itertools import pairwise
from statistics import median

import numpy as np

from tare.findings import Context, Location, Match, Span, WhatIf, rule
from tare.findings.compared import kernel_times

LONGER = 1.2
# A stretch between two launches that is longer than before by this (ns) is a location.
LEAST_NS = 50_000


@rule(
    "host-work-grew",
    sees="Between two traces the kernels are the same, and the host needs at least 1.2 times as long between "
    "its calls.",
    remedy="Look at what was added there: exceptions thrown and caught, checks made twice, logging, conversions.",
    pair=True,
)
def look(before: Context, after: Context) -> Match | None:
    was, now = ({name: round(n, 3) for name, (n, _) in kernel_times(side).items()} for side in (before, after))
    if not now or was != now:
        return None
    earlier, later = _between_launches(before), _between_launches(after)
    if earlier is None or later is None or len(earlier) != len(later):
        return None
    # A profiler that slowed down one host as a whole is not meant: growth counts relative to the typical stretch.
    pace = median(n / max(o, 1) for (o, _), (n, _) in zip(earlier, later, strict=True)) or 1.0
    growth = [(n - o * pace, spans) for (o, _), (n, spans) in zip(earlier, later, strict=True)]
    grown = [(extra, spans) for extra, spans in growth if extra > LEAST_NS]
    if not grown or sum(n for n, _ in later) < LONGER * pace * sum(o for o, _ in earlier):
        return None
    spans = [span for _, stretch in grown for span in stretch]
    return Match(
        summary=f"the same kernels, but {len(grown)} stretches of host time are longer than before",
        evidence={"grown_s_per_step": sum(extra for extra, _ in grown) / 1e9, "stretches": len(grown)},
        locations=[
            Location(where=_where(after, stretch[0]), count=1.0, seconds=extra / 1e9) for extra, stretch in grown
        ],
        saving_s=after.saving(WhatIf(removed=spans)),
        spans=spans,
    )


def _between_launches(context: Context) -> list[tuple[float, list[Span]]] | None:
    """The median host time (ns) from each launch of a step to the next, and the spans of it in all steps; None
    where the steps differ in their launches."""
    calls, device = context.trace.calls, context.trace.device
    launching = np.zeros(len(calls), dtype=bool)
    launching[device.call[device.kernels & (device.call >= 0)]] = True
    steps = []
    for start, end in zip(context.trace.steps.start.tolist(), context.trace.steps.end.tolist(), strict=True):
        rows = np.flatnonzero(launching & (calls.start >= start) & (calls.start < end) & context.inside(calls))
        if len(rows) > 1:
            steps.append([(int(calls.end[a]), int(calls.start[b])) for a, b in pairwise(rows.tolist())])
    if not steps or len({len(step) for step in steps}) != 1:
        return None
    return [(median(max(e - s, 0) for s, e in spans), list(spans)) for spans in zip(*steps, strict=True)]


def _where(context: Context, span: Span) -> str:
    calls = context.trace.calls
    before = max(int(np.searchsorted(calls.start, span[0])) - 1, 0)
    return context.locator.at(int(calls.thread[0]), sum(span) // 2) or context.locator.after_call(before)
