"""Copies of pinned memory for which a kernel waits, although they could run beside the step before."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, spans_of
from tare.findings.copies import copy_places
from tare.findings.finding import Hit
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.findings.rules.pageable_copies import LEAST_BYTES
from tare.trace.intervals import Intervals, difference, intersection, make, total
from tare.trace.tables import COPY, HOST_TO_DEVICE, PINNED

# Exposed for at least this share of the step.
LEAST_SHARE = 0.02


@rule(
    "exposed-copies",
    sees="Asynchronous copies of pinned memory to the device while kernels wait: 2 % of the step or more.",
    remedy="Copy the next batch on a second stream while this one is computed (prefetch).",
)
def look(scene: Scene) -> Iterator[Hit]:
    device = scene.trace.device
    known = (device.kind == COPY) & (device.memory == PINNED) & (device.direction == HOST_TO_DEVICE)
    known &= (device.bytes >= LEAST_BYTES) & np.isin(device.call, list(scene.script.call_at))
    copies = np.flatnonzero(known)
    exposed = total(
        intersection(difference(device.intervals(copies), device.intervals(device.kernels)), _waited(scene))
    )
    if exposed == 0 or exposed / scene.steps / 1e9 < LEAST_SHARE * scene.step_s:
        return
    edit = Edit(apart=frozenset(scene.script.work_at[w] for w in copies.tolist()))
    yield Hit(
        summary=f"copies run alone: {scene.per_step(len(copies)):.3g} a step, "
        f"{exposed / scene.steps / 1e9 / scene.step_s:.0%} of it",
        evidence={
            "exposed_s_per_step": exposed / scene.steps / 1e9,
            "bytes_per_step": int(device.bytes[copies].sum()) / scene.steps,
        },
        places=copy_places(scene, copies),
        gain_s=scene.price(edit),
        spans=spans_of(device, copies),
    )


def _waited(scene: Scene) -> Intervals:
    """When some kernel had been launched and not begun: before that, a copy holds nothing up."""
    device, calls = scene.trace.device, scene.trace.calls
    launched = np.flatnonzero(device.kernels & (device.call >= 0))
    return make(calls.end[device.call[launched]], device.start[launched])
