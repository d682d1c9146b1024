"""Copies of pinned memory during which nothing is computed, although they could run beside the step before."""

from collections.abc import Iterator

import numpy as np

from tare.findings.copies import copy_places
from tare.findings.finding import Hit
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.findings.rules.pageable_copies import LEAST_BYTES
from tare.findings.scene import Scene, spans_of
from tare.trace.intervals import difference, total
from tare.trace.tables import COPY, HOST_TO_DEVICE, PINNED

# Exposed for at least this share of the step.
LEAST_SHARE = 0.02


@rule(
    "exposed-copies",
    sees="Asynchronous copies of pinned memory to the device while no kernel runs, 2 % of the step or more.",
    remedy="Copy the next batch on a second stream while this one is computed (prefetch).",
)
def look(scene: Scene) -> Iterator[Hit]:
    device = scene.trace.device
    known = (device.kind == COPY) & (device.memory == PINNED) & (device.direction == HOST_TO_DEVICE)
    known &= (device.bytes >= LEAST_BYTES) & np.isin(device.call, list(scene.script.call_at))
    copies = np.flatnonzero(known)
    exposed = total(difference(device.intervals(copies), device.intervals(device.kernels)))
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
