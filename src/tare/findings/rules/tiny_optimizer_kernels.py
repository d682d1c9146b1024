"""The TorchBench paper, listing 2: zero_grad and the optimizer walk over the parameters, a tiny kernel each."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.trace.tables import Integers

TINY_NS = 5_000
# A foreach optimizer needs a handful of kernels whatever the number of parameters.
HANDFUL = 6
FEWEST = 16


@rule(
    "tiny-optimizer-kernels",
    sees="zero_grad or the optimizer launches at least 16 kernels a step, half of them under 5 µs.",
    remedy="Use foreach=True or fused=True in the optimizer, and zero_grad(set_to_none=True).",
)
def look(scene: Scene) -> Iterator[Hit]:
    marks, calls = scene.trace.annotations, scene.trace.calls
    zeroing = _zeroing(scene)
    stepping = scene.calls_during(marks, scene.matching(marks, r"^Optimizer\.step#"))
    dropped, places, kernels = zeroing[:0], [], 0
    for label, found, kept in (("zero_grad", zeroing, 0), ("Optimizer.step", stepping, HANDFUL)):
        launching = found[np.isin(found, scene.trace.device.call[scene.trace.device.kernels])]
        works = scene.works_of(launching)
        if scene.per_step(len(works)) < FEWEST / 2 or np.median(scene.trace.device.duration[works]) > TINY_NS:
            continue
        kernels += len(works)
        dropped = np.union1d(dropped, _all_but(launching, kept * scene.steps))
        roots = scene.roots(calls.operator[found])
        host = float(scene.trace.operators.duration[roots].sum()) / scene.steps / 1e9
        places.append(Place(where=label, count=scene.per_step(len(works)), seconds=host))
    if scene.per_step(kernels) < FEWEST:
        return
    works = scene.works_of(dropped)
    yield Hit(
        summary=f"{scene.per_step(kernels):.0f} tiny kernels a step in {' and '.join(p.where for p in places)}",
        evidence={
            "kernels_per_step": scene.per_step(kernels),
            "median_kernel_us": float(np.median(scene.trace.device.duration[works])) / 1e3,
        },
        places=places,
        gain_s=scene.price(scene.drop(dropped, _host_around(scene, dropped))),
        spans=spans_of(scene.trace.device, works),
    )


def _zeroing(scene: Scene) -> Integers:
    """Calls under aten::zero_ of an optimizer's or a module's zero_grad: those that nothing else is around."""
    zeros = scene.operators("aten::zero_", "aten::fill_")
    table = scene.trace.operators
    return scene.calls_under(zeros[table.parent[zeros] < 0])


def _all_but(calls: Integers, kept: int) -> Integers:
    """Evenly spaced calls stay: the few that a joint kernel needs."""
    if kept == 0 or len(calls) <= kept:
        return calls if kept == 0 else calls[:0]
    stay = np.linspace(0, len(calls) - 1, kept).astype(int)
    return np.delete(calls, stay)


def _host_around(scene: Scene, calls: Integers) -> list[tuple[int, int]]:
    """The host's way to each of these calls: from the call before it on the same thread."""
    table, known = scene.trace.calls, set(calls.tolist())
    spans = []
    for row in calls.tolist():
        root = scene.roots(table.operator[row : row + 1])
        start = int(scene.trace.operators.start[root[0]]) if len(root) else int(table.start[row])
        if row - 1 in known and table.thread[row - 1] == table.thread[row]:
            start = min(start, int(table.end[row - 1]))
        spans.append((start, int(table.end[row])))
    return spans
