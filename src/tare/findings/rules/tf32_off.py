"""float32 matrix products on the ordinary cores of a GPU that has TF32."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.products import product_place, reaches
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.trace.counting import CONVOLUTIONS, PRODUCTS, RECURRENT, flops, types
from tare.trace.kernel_names import matrix, tensor_cores, transformed

LEAST_SHARE = 0.05
# TF32 came with compute capability 8.0.
FIRST_WITH_TF32 = 8


@rule(
    "tf32-off",
    sees="float32 matrix products, 5 % of the step or more, by kernels that use no tensor cores.",
    remedy="Allow TF32 (torch.set_float32_matmul_precision('high'), cudnn.allow_tf32) or use autocast, if 10 "
    "bits of mantissa do.",
)
def look(scene: Scene) -> Iterator[Hit]:
    if not _has_tf32(scene):
        return
    device = scene.trace.device
    candidates = scene.operators(*PRODUCTS, *CONVOLUTIONS, *RECURRENT)
    single = np.array([row for row in candidates.tolist() if _single(scene, row)], dtype=np.int64)
    slow = {
        row: mine for row, works in scene.works_by(single).items() if (mine := _without_cores(scene, row, works))
    }
    works = np.array([work for mine in slow.values() for work in mine], dtype=np.int64)
    share = scene.device_share(works)
    if share < LEAST_SHARE:
        return
    counted = {row: flops(scene.trace, row) for row in slow}
    rate = scene.rates.get("matrix:tf32")
    factors = {
        scene.script.work_at[work]: _left(counted[row], rate, int(device.duration[mine].sum()))
        for row, mine in slow.items()
        for work in mine
    }
    computed = sum(found or 0 for found in counted.values()) / scene.steps
    evidence: dict[str, float | int | str] = {"device_share": share, "flops_per_step": computed}
    yield Hit(
        summary=f"float32 matrix kernels run without tensor cores: {scene.per_step(len(works)):.3g} a step",
        evidence=evidence | ({"flops_per_s": rate} if rate else {}),
        places=[
            Place(
                where=product_place(scene, row, mine[0]),
                count=scene.per_step(len(mine)),
                seconds=scene.device_s(np.array(mine)),
            )
            for row, mine in slow.items()
        ],
        gain_s=scene.price(Edit(factors=factors)),
        at_most=not reaches(list(counted.values()), rate),
        spans=spans_of(device, works),
    )


def _without_cores(scene: Scene, row: int, works: list[int]) -> list[int]:
    """Those that multiply matrices, and by their names not on tensor cores. Of a convolution behind a transform
    all: with TF32 cuDNN chooses others, and most of the time may be in what no name calls a product."""
    names = {work: scene.trace.name(scene.trace.device, work) for work in works if work in scene.script.work_at}
    convolves = scene.trace.name(scene.trace.operators, row) in CONVOLUTIONS
    if convolves and any(map(transformed, names.values())) and not any(map(tensor_cores, names.values())):
        return list(names)
    return [work for work, name in names.items() if matrix(name) and tensor_cores(name) is False]


def _left(count: int | None, rate: float | None, ns: int) -> float:
    """How much of an operator's time is left at the rate of TF32; next to nothing where that is not known."""
    needed = count / rate * 1e9 / max(ns, 1) if count and rate else 0.0
    return min(max(needed, 1e-9), 1.0)


def _has_tf32(scene: Scene) -> bool:
    properties = scene.trace.metadata.get("deviceProperties")
    if not isinstance(properties, list) or not properties or not isinstance(properties[0], dict):
        return False
    major = properties[0].get("computeMajor", 0)
    return isinstance(major, int) and major >= FIRST_WITH_TF32


def _single(scene: Scene, row: int) -> bool:
    return "float" in types(scene.trace, row)[:3]
