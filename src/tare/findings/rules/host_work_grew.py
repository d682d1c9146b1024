"""The device does the same as before, and the host takes longer to launch it (the TorchBench paper, PR 87855 and
61056)."""

import numpy as np

from tare.findings import Context, Location, Match, WhatIf, rule
from tare.trace.tables import Integers
from tare.trace.windows import counted_step

LONGER = 1.2
# A gap between two launches that is longer than before by this is a location.
LEAST_S = 50e-6


@rule("Look at what was added there: exceptions thrown and caught, checks made twice, logging, conversions.")
def host_work_grew(before: Context, after: Context) -> Match | None:
    """Between two traces the kernels are the same, and the host needs at least 1.2 times as long between its
    calls."""
    kernels, earlier, later = _kernels_per_step(after), _gaps(before), _gaps(after)
    if not kernels or kernels != _kernels_per_step(before) or len(earlier) != len(later) or len(later) == 0:
        return None
    was, now = (np.median(np.maximum(gaps[..., 1] - gaps[..., 0], 0), axis=1) for gaps in (earlier, later))
    # A profiler that slowed down one host as a whole is not meant: growth counts relative to the typical gap.
    pace = float(np.median(now / np.maximum(was, 1))) or 1.0
    growth_s = (now - was * pace) / 1e9
    grown = np.flatnonzero(growth_s > LEAST_S)
    if len(grown) == 0 or now.sum() < LONGER * pace * was.sum():
        return None
    spans = later[grown].reshape(-1, 2)
    return Match(
        summary=f"the same kernels, but {len(grown)} stretches of host time are longer than before",
        evidence={"grown_s_per_step": float(growth_s[grown].sum()), "stretches": len(grown)},
        locations=[
            Location(where=_where(after, *later[gap, 0].tolist()), count=1.0, seconds=float(growth_s[gap]))
            for gap in grown
        ],
        saving_s=after.saving(WhatIf(removed=spans)),
        spans=spans,
    )


def _kernels_per_step(context: Context) -> dict[str, float]:
    device = context.trace.device
    codes, counts = np.unique(device.name[device.kernels & context.launched], return_counts=True)
    per_step = (round(context.per_step(count), 3) for count in counts.tolist())
    return {context.trace.names[code]: count for code, count in zip(codes.tolist(), per_step, strict=True)}


def _gaps(context: Context) -> Integers:
    """Start and end of the host's way from each launch of a step to the next, as (gaps, steps, 2). Empty where the
    steps differ in their launches."""
    calls, device = context.trace.calls, context.trace.device
    launching = np.unique(device.call[device.kernels & context.launched])
    step = counted_step(context.trace, calls.start[launching])
    by_step = [launching[step == number] for number in np.unique(step[step >= 0])]
    if len({len(rows) for rows in by_step}) != 1:
        return np.empty((0, 0, 2), dtype=np.int64)
    rows = np.stack(by_step, axis=1)
    return np.stack([calls.end[rows[:-1]], calls.start[rows[1:]]], axis=-1)


def _where(context: Context, start: int, end: int) -> str:
    calls = context.trace.calls
    before = max(int(np.searchsorted(calls.start, start)) - 1, 0)
    return context.locator.at(calls.thread[0], (start + end) // 2) or context.locator.after_call(before)
