"""Copies from pageable memory go through a staging buffer, slowly, while the program waits."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, merged, spans_of
from tare.findings.copies import copy_places
from tare.findings.finding import Hit
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.findings.rules.parameter_ping_pong import FEWEST, there_and_back
from tare.trace.tables import COPY, HOST_TO_DEVICE, PAGEABLE, PINNED, Integers

# A smaller copy is taken into the command itself: pinning changes nothing.
LEAST_BYTES = 64 << 10
# Of the call that remains, so much is host time (ns).
CALL_NS = 10_000


@rule(
    "pageable-copies",
    sees="Copies of 64 KiB or more between the device and pageable host memory.",
    remedy="Pin the host's side (pin_memory=True in the DataLoader, tensor.pin_memory()) and copy with "
    "non_blocking=True.",
)
def look(scene: Scene) -> Iterator[Hit]:
    device, calls = scene.trace.device, scene.trace.calls
    copies = pageable(scene)
    seconds = scene.device_s(copies)
    if seconds == 0:
        return
    launching = np.unique(device.call[copies])
    operators = np.unique(calls.operator[launching])
    held = scene.waits[np.isin(calls.operator[scene.waits], operators[operators >= 0])]
    rate = pinned_rate(scene)
    spans = [(int(calls.start[c]) + CALL_NS, int(calls.end[c])) for c in launching.tolist()]
    spans += spans_of(calls, held, most=len(held))
    edit = Edit(
        removed=merged(spans),
        unwaited=frozenset(scene.script.call_at[c] for c in (*launching.tolist(), *held.tolist())),
        factors={scene.script.work_at[w]: _factor(scene, w, rate) for w in copies.tolist()},
    )
    moved = int(device.bytes[copies].sum()) / scene.steps
    evidence: dict[str, float | int | str] = {"bytes_per_step": moved, "bytes_per_s": moved / seconds}
    yield Hit(
        summary=f"copies touch pageable memory: {scene.per_step(len(copies)):.3g} a step",
        evidence=evidence | ({"pinned_bytes_per_s": rate} if rate else {}),
        places=copy_places(scene, copies),
        gain_s=scene.price(edit),
        at_most=rate is None,
        spans=spans_of(device, copies),
    )


def pageable(scene: Scene) -> Integers:
    """Large pageable copies, without those that should not be made at all."""
    device = scene.trace.device
    known = (device.kind == COPY) & (device.memory == PAGEABLE) & (device.bytes >= LEAST_BYTES)
    rows = np.flatnonzero(known & np.isin(device.call, list(scene.script.call_at)))
    back, there = there_and_back(scene)
    if scene.per_step(len(back)) >= FEWEST:
        rows = np.setdiff1d(rows, np.union1d(back, there))
    return rows


def pinned_rate(scene: Scene) -> float | None:
    """Bytes a second of a pinned copy: measured on this machine, or seen in this trace."""
    if known := scene.rates.get("copy:host-to-device:pinned"):
        return known
    device = scene.trace.device
    pinned = (device.memory == PINNED) & (device.bytes >= 1 << 20) & (device.direction == HOST_TO_DEVICE)
    rows = np.flatnonzero(pinned)
    if len(rows) == 0:
        return None
    return float(np.median(device.bytes[rows] / np.maximum(device.duration[rows], 1)) * 1e9)


def _factor(scene: Scene, work: int, rate: float | None) -> float:
    """How much of the copy would be left."""
    device = scene.trace.device
    if rate is None:
        return 0.0
    return min(float(device.bytes[work]) / rate * 1e9 / max(float(device.duration[work]), 1.0), 1.0)
