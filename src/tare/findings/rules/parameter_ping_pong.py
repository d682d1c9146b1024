"""The TorchBench paper, section 4.1.2 (pig2): what was moved off the device is moved back in every step."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, spans_of
from tare.findings.copies import copy_places
from tare.findings.finding import Hit
from tare.findings.registry import rule
from tare.trace.tables import COPY, DEVICE_TO_HOST, HOST_TO_DEVICE, Integers

LEAST_BYTES = 4096
FEWEST = 4


@rule(
    "parameter-ping-pong",
    sees="At least 4 tensors a step, of 4 KiB or more, leave the device and come back in the same sizes.",
    remedy="Keep them on the device if the peak of memory allows it; offload only what does not fit.",
)
def look(scene: Scene) -> Iterator[Hit]:
    device = scene.trace.device
    back, there = there_and_back(scene)
    if scene.per_step(len(back)) < FEWEST:
        return
    works = np.union1d(back, there)
    calls = np.unique(device.call[works])
    roots = scene.roots(scene.trace.calls.operator[calls])
    moved = int(device.bytes[works].sum()) / scene.steps
    yield Hit(
        summary=f"tensors go to the host and back: {scene.per_step(len(back)):.3g} a step",
        evidence={
            "bytes_per_step": moved,
            "tensors_per_step": scene.per_step(len(back)),
            "device_share": scene.device_share(works),
        },
        places=copy_places(scene, works),
        gain_s=scene.price(
            scene.drop(
                np.union1d(calls, scene.calls_under(roots)),
                spans_of(scene.trace.operators, roots, most=len(roots)),
            )
        ),
        spans=spans_of(device, works),
    )


def there_and_back(scene: Scene) -> tuple[Integers, Integers]:
    """Copies to the device and to the host, of which each has one of its size in the other direction."""
    device = scene.trace.device
    known = (
        (device.kind == COPY) & (device.bytes >= LEAST_BYTES) & np.isin(device.call, list(scene.script.call_at))
    )
    rows = {way: np.flatnonzero(known & (device.direction == way)) for way in (HOST_TO_DEVICE, DEVICE_TO_HOST)}
    sizes = {way: Counter(device.bytes[found].tolist()) for way, found in rows.items()}
    both = sizes[HOST_TO_DEVICE] & sizes[DEVICE_TO_HOST]
    return _matched(device.bytes, rows[HOST_TO_DEVICE], both), _matched(device.bytes, rows[DEVICE_TO_HOST], both)


def _matched(sizes: Integers, rows: Integers, wanted: Counter[int]) -> Integers:
    left = Counter(wanted)
    kept = []
    for row in rows.tolist():
        size = int(sizes[row])
        if left[size]:
            left[size] -= 1
            kept.append(row)
    return np.array(kept, dtype=np.int64)
