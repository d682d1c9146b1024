"""The TorchBench paper, PR 87855 and 61056: the device does the same as before, the host takes longer to ask."""

from collections.abc import Iterator
from itertools import pairwise
from statistics import median

import numpy as np

from tare.findings.compared import kernel_times
from tare.findings.context import Scene, merged
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.replay import Edit

LONGER = 1.2
# A stretch between two calls that is longer than its twin by this (ns) is a place.
LEAST_NS = 50_000


@rule(
    "host-work-grew",
    sees="Between two traces the kernels are the same, and the host needs at least 1.2 times as long between "
    "its calls.",
    remedy="Look at what was added there: exceptions thrown and caught, checks made twice, logging, conversions.",
    pair=True,
)
def look(before: Scene, after: Scene) -> Iterator[Hit]:
    was, now = kernel_times(before), kernel_times(after)
    if not now or {name: round(n, 3) for name, (n, _) in was.items()} != {
        name: round(n, 3) for name, (n, _) in now.items()
    }:
        return
    old, new = _between(before), _between(after)
    if old is None or new is None or len(old) != len(new):
        return
    # A profiler that slowed one host as a whole is not what is looked for: the typical stretch is the yardstick.
    pace = median(n / max(o, 1) for (o, _), (n, _) in zip(old, new, strict=True)) or 1.0
    grown = [(n - o * pace, spans) for (o, _), (n, spans) in zip(old, new, strict=True) if n - o * pace > LEAST_NS]
    if not grown or sum(n for n, _ in new) < LONGER * pace * sum(o for o, _ in old):
        return
    spans = [span for _, found in grown for span in found]
    yield Hit(
        summary=f"the same kernels, but {len(grown)} stretches of host time are longer than before",
        evidence={"grown_s_per_step": sum(extra for extra, _ in grown) / 1e9, "stretches": len(grown)},
        places=[
            Place(
                where=after.places.at(int(after.trace.calls.thread[0]), sum(found[0]) // 2)
                or _after_call(after, found[0][0]),
                count=1.0,
                seconds=extra / 1e9,
            )
            for extra, found in grown
        ],
        gain_s=after.price(Edit(removed=merged(spans))),
        spans=merged(spans)[:200],
    )


def _between(scene: Scene) -> list[tuple[float, list[tuple[int, int]]]] | None:
    """Host time (ns) from each launch of a step to the next, over the steps; None where steps differ in them."""
    calls, device = scene.trace.calls, scene.trace.device
    launching = np.zeros(len(calls), dtype=bool)
    launching[device.call[device.kernels & (device.call >= 0)]] = True
    steps = []
    for start, end in zip(scene.trace.steps.start.tolist(), scene.trace.steps.end.tolist(), strict=True):
        rows = np.flatnonzero(launching & (calls.start >= start) & (calls.start < end) & scene.inside(calls))
        if len(rows) > 1:
            steps.append([(int(calls.end[a]), int(calls.start[b])) for a, b in pairwise(rows.tolist())])
    if not steps or len({len(step) for step in steps}) != 1:
        return None
    return [(median(max(e - s, 0) for s, e in spans), list(spans)) for spans in zip(*steps, strict=True)]


def _after_call(scene: Scene, moment: int) -> str:
    calls = scene.trace.calls
    row = max(int(np.searchsorted(calls.start, moment)) - 1, 0)
    return f"after {scene.places.path(int(calls.operator[row])) or scene.trace.name(calls, row)}"
