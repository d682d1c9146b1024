"""The TorchBench paper, listing 3: a Python number is copied to the device to become a tensor, in every step."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.trace.counting import ITEM, shapes, types
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
    groups = [_with_parts(scene, row) for row in scene.roots(scene.trace.calls.operator[calls]).tolist()]
    roots = np.array(sorted({row for group in groups for row in group}), dtype=np.int64)
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
        gain_s=scene.price(scene.drop(gone, scene.around.spans(groups))),
        spans=spans_of(scene.trace.device, copies),
    )


def scalar_copies(scene: Scene) -> Integers:
    device = scene.trace.device
    chosen = (device.kind == COPY) & (device.direction == HOST_TO_DEVICE) & (device.call >= 0)
    chosen &= (
        (device.bytes > 0) & (device.bytes <= SCALAR_BYTES) & np.isin(device.call, list(scene.script.call_at))
    )
    return np.flatnonzero(chosen)


def _with_parts(scene: Scene, copying: int) -> list[int]:
    """The operators that go with the one that copies: torch.tensor's other parts, and what is computed next from
    the number alone (torch.rsqrt of it), which Python does where the number stays there."""
    around, table = scene.around, scene.trace.operators

    def named(row: int, name: str) -> bool:
        return row >= 0 and scene.trace.name(table, row) == name

    group = [copying]
    if named(around.after(copying), "aten::lift_fresh"):
        if named(around.before(copying), "aten::empty"):
            group.insert(0, around.before(copying))
        group.append(around.after(copying))
        if named(around.after(group[-1]), "aten::detach_"):
            group.append(around.after(group[-1]))
    while (after := around.after(group[-1])) >= 0 and _of_one_number(scene, after):
        group.append(after)
    return group


def _of_one_number(scene: Scene, row: int) -> bool:
    """Whether the only tensor that goes into an operator is a single number, and kernels compute it."""
    inputs = zip(shapes(scene.trace, row), types(scene.trace, row), strict=False)
    launched = scene.works_by(np.array([row]))[row]
    return [dims for dims, kind in inputs if kind in ITEM] == [[]] and (
        len(launched) > 0 and bool(scene.trace.device.kernels[launched].all())
    )
