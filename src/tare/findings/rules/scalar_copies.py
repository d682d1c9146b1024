"""Seed 003, listing 3: a Python number is made a tensor on the device, by a copy of its own, in every step."""

from collections.abc import Iterator

import numpy as np

from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.scene import Scene, spans_of
from tare.trace.tables import COPY, HOST_TO_DEVICE, Integers

SCALAR_BYTES = 8


@rule(
    "scalar-copies",
    sees="Copies of single numbers (at most 8 bytes) from host to device in every step.",
    remedy="Keep the number in Python (x * 0.5, math.sqrt) or make its tensor on the device once, before the "
    "loop.",
)
def look(scene: Scene) -> Iterator[Hit]:
    copies = scalar_copies(scene)
    calls = np.unique(scene.trace.device.call[copies])
    if not scene.in_every_step(scene.trace.calls, calls):
        return
    roots = scene.roots(scene.trace.calls.operator[calls])
    gone = np.union1d(calls, scene.calls_under(roots))
    table = scene.trace.calls
    places = [
        Place(
            where=where,
            count=scene.per_step(len(rows)),
            seconds=float(table.duration[rows].sum()) / scene.steps / 1e9,
        )
        for where, rows in scene.places.of_calls(calls).items()
    ]
    yield Hit(
        summary=f"single numbers are copied to the device: {scene.per_step(len(copies)):.3g} a step",
        evidence={
            "copies_per_step": scene.per_step(len(copies)),
            "bytes_each": int(scene.trace.device.bytes[copies].max()),
        },
        places=places,
        gain_s=scene.price(scene.drop(gone, spans_of(scene.trace.operators, roots, most=len(roots)))),
        spans=spans_of(scene.trace.device, copies),
    )


def scalar_copies(scene: Scene) -> Integers:
    device = scene.trace.device
    chosen = (device.kind == COPY) & (device.direction == HOST_TO_DEVICE) & (device.call >= 0)
    chosen &= (
        (device.bytes > 0) & (device.bytes <= SCALAR_BYTES) & np.isin(device.call, list(scene.script.call_at))
    )
    return np.flatnonzero(chosen)
