"""A bias added by a convolution and taken away again by the batch norm behind it."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.trace.counting import shapes
from tare.trace.tables import Integers


@rule(
    "conv-bias-before-norm",
    sees="A convolution with bias whose result goes straight into a batch norm.",
    remedy="Build the convolution with bias=False: the norm subtracts the mean, and its own bias does the rest.",
)
def look(scene: Scene) -> Iterator[Hit]:
    guilty = pairs(scene)
    if len(guilty) == 0:
        return
    table, device = scene.trace.operators, scene.trace.device
    adding = np.flatnonzero(scene.under(guilty) & scene.trace.named(table, "aten::add_"))
    channels = {int(_bias(scene, row)) for row in guilty.tolist()}
    works = scene.works_of(np.union1d(scene.calls_under(adding), scene.calls_under(_backward(scene, channels))))
    calls = np.unique(device.call[works])
    yield Hit(
        summary=f"convolutions add a bias that a batch norm removes: {scene.per_step(len(guilty)):.3g} a step",
        evidence={
            "convolutions_per_step": scene.per_step(len(guilty)),
            "device_s_per_step": scene.device_s(works),
        },
        places=[Place(where=scene.places.of_operator(row), count=1 / scene.steps, seconds=0.0) for row in guilty],
        gain_s=scene.price(scene.drop(calls)),
        spans=spans_of(device, works),
    )


def pairs(scene: Scene) -> Integers:
    """Outermost convolutions with a bias, followed by a batch norm of as many channels on the same thread."""
    table = scene.trace.operators
    first = scene.operators("aten::conv1d", "aten::conv2d", "aten::conv3d")
    found = []
    for row in first[table.parent[first] < 0].tolist():
        channels = _bias(scene, row)
        if not channels:
            continue
        after = _next_root(scene, row)
        name = scene.trace.name(table, after) if after >= 0 else ""
        dims = shapes(scene.trace, after) if after >= 0 else []
        if name == "aten::batch_norm" and dims and dims[0][1:2] == [channels]:
            found.append(row)
    return np.array(found, dtype=np.int64)


def _bias(scene: Scene, row: int) -> int:
    dims = shapes(scene.trace, row)
    return dims[2][0] if len(dims) > 2 and len(dims[2]) == 1 else 0


def _next_root(scene: Scene, row: int) -> int:
    """The next outermost operator of the same thread, casts and counters aside."""
    table = scene.trace.operators
    for after in range(row + 1, min(row + 200, len(table))):
        if table.parent[after] < 0 and table.thread[after] == table.thread[row]:
            name = scene.trace.name(table, after)
            if name not in ("aten::to", "aten::add_", "aten::add", "aten::empty"):
                return after
    return -1


def _backward(scene: Scene, channels: set[int]) -> Integers:
    """Sums over all but the channels within a convolution's backward: the gradients of the biases."""
    table = scene.trace.operators
    within = scene.under(scene.operators("aten::convolution_backward"))
    sums = np.flatnonzero(within & scene.trace.named(table, "aten::sum"))
    kept = []
    for row in sums.tolist():
        dims = shapes(scene.trace, row)
        if dims and set(dims[0][1:2]) <= channels:
            kept.append(row)
    return np.array(kept, dtype=np.int64)
