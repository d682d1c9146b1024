"""Kernels wait for copies of pinned memory that could run beside the previous step."""

import numpy as np

from tare.findings import Context, Match, WhatIf, rule, spans_of
from tare.findings.rules.pageable_copies import LEAST_BYTES
from tare.trace.intervals import Intervals, difference, intersection, make, total
from tare.trace.tables import COPY, HOST_TO_DEVICE, PINNED

LEAST_SHARE = 0.02


@rule(
    "exposed-copies",
    sees="Asynchronous copies of pinned memory to the device while kernels wait: 2 % of the step or more.",
    remedy="Copy the next batch on a second stream while this one is computed (prefetch).",
)
def look(context: Context) -> Match | None:
    device = context.trace.device
    pinned = (device.kind == COPY) & (device.memory == PINNED) & (device.direction == HOST_TO_DEVICE)
    copies = np.flatnonzero(pinned & (device.bytes >= LEAST_BYTES) & context.launched)
    alone = difference(device.intervals(copies), device.intervals(device.kernels))
    exposed_s = total(intersection(alone, _waiting_kernels(context))) / context.steps / 1e9
    if exposed_s == 0 or exposed_s < LEAST_SHARE * context.step_s:
        return None
    return Match(
        summary=f"copies run alone: {context.per_step(len(copies)):.3g} a step, "
        f"{exposed_s / context.step_s:.0%} of it",
        evidence={
            "exposed_s_per_step": exposed_s,
            "bytes_per_step": int(device.bytes[copies].sum()) / context.steps,
        },
        locations=context.copy_locations(copies),
        saving_s=context.saving(WhatIf(detached=frozenset(copies.tolist()))),
        spans=spans_of(device, copies),
    )


def _waiting_kernels(context: Context) -> Intervals:
    """When some kernel had been launched and had not started. At other times a copy delays nothing."""
    device, calls = context.trace.device, context.trace.calls
    launched = np.flatnonzero(device.kernels & (device.call >= 0))
    return make(calls.end[device.call[launched]], device.start[launched])
