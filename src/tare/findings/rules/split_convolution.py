"""Convolutions that the library cuts into many kernels, one for each group or frequency, too small for a GPU."""

from collections.abc import Iterator

import msgspec
import numpy as np

from tare.findings.context import Scene, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.products import reaches
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.trace.counting import CONVOLUTIONS, flops, shapes, types
from tare.trace.kernel_names import matrix

# Backwards, with each gradient split in two, a convolution that is whole has not as many that multiply.
FEWEST_KERNELS = 6
LEAST_SHARE = 0.05
RATES = {"float": "matrix:fp32", "c10::BFloat16": "matrix:bf16", "c10::Half": "matrix:fp16"}


@rule(
    "split-convolution",
    sees="Convolutions of which each is 6 kernels that multiply, or more; 5 % of the step or more.",
    remedy="Allow TF32 (cudnn.allow_tf32) or use half precision: then cuDNN leaves them whole. If it must be full "
    "float32, measure channels-last: it helps some and slows others.",
)
def look(scene: Scene) -> Iterator[Hit]:
    device = scene.trace.device
    launched = scene.works_by(scene.operators(*CONVOLUTIONS))
    known = {row: [work for work in works if work in scene.script.work_at] for row, works in launched.items()}
    split = {row: works for row, works in known.items() if _multiplying(scene, works) >= FEWEST_KERNELS}
    works = np.array([work for mine in split.values() for work in mine], dtype=np.int64)
    if len(works) == 0 or scene.device_share(works) < LEAST_SHARE:
        return
    most = max(len(mine) for mine in split.values())
    yield Hit(
        summary=f"convolutions are cut into up to {most} kernels: {scene.per_step(len(works)):.3g} a step",
        evidence={
            "device_share": scene.device_share(works),
            "convolutions_per_step": scene.per_step(len(split)),
            "most_kernels": most,
        },
        places=[_place(scene, row, mine) for row, mine in split.items()],
        gain_s=scene.price(_as_one(scene, split)),
        at_most=not all(reaches([flops(scene.trace, row)], _rate(scene, row)) for row in split),
        spans=spans_of(device, works),
    )


def _multiplying(scene: Scene, works: list[int]) -> int:
    return sum(matrix(scene.trace.name(scene.trace.device, work)) for work in works)


def _as_one(scene: Scene, split: dict[int, list[int]]) -> Edit:
    """Of each the first kernel alone, for as long as the work takes at the peak."""
    device = scene.trace.device
    firsts = {row: min(works, key=lambda work: int(device.start[work])) for row, works in split.items()}
    others = [work for row, works in split.items() for work in works if work != firsts[row]]
    calls = np.setdiff1d(device.call[others], device.call[list(firsts.values())])
    edit = scene.drop(calls)
    lengths = {
        scene.script.work_at[first]: _needed_ns(scene, row) / max(int(device.duration[first]), 1)
        for row, first in firsts.items()
    }
    return msgspec.structs.replace(edit, factors={**edit.factors, **lengths})


def _needed_ns(scene: Scene, row: int) -> float:
    """At the measured peak; next to nothing where that is not known."""
    rate, count = _rate(scene, row), flops(scene.trace, row)
    return count / rate * 1e9 if rate and count else 1.0


def _rate(scene: Scene, row: int) -> float | None:
    """Of the precision it is in, also where the remedy is another: cut to this size it reaches no more."""
    return scene.rates.get(RATES.get(next(iter(types(scene.trace, row)), ""), ""))


def _place(scene: Scene, row: int, works: list[int]) -> Place:
    device = scene.trace.device
    where = scene.places.of_call(int(device.call[works[0]]))
    dims = ["x".join(map(str, one)) for one in shapes(scene.trace, row)[:2]]
    return Place(
        where=f"{where}: {' by '.join(dims)}" if dims else where,
        count=scene.per_step(len(works)),
        seconds=scene.device_s(np.array(works)),
    )
