"""float32 matrix products on the ordinary cores of a GPU that has TF32."""

from collections.abc import Iterator

import numpy as np

from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.findings.scene import Scene, spans_of
from tare.trace.counting import CONVOLUTIONS, PRODUCTS, flops, types
from tare.trace.kernel_names import matrix, tensor_cores

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
    candidates = scene.operators(*PRODUCTS, *CONVOLUTIONS)
    single = np.array([row for row in candidates.tolist() if _single(scene, row)], dtype=np.int64)
    slow = [
        work
        for work in scene.works_of(scene.calls_under(single)).tolist()
        if work in scene.script.work_at
        and matrix(name := scene.trace.name(device, work))
        and tensor_cores(name) is False
    ]
    works = np.array(slow, dtype=np.int64)
    if scene.device_share(works) < LEAST_SHARE:
        return
    names = {scene.trace.name(device, int(work)) for work in works}
    seconds = scene.device_s(works)
    counted = [n for row in single.tolist() if (n := flops(scene.trace, row))]
    rate = scene.rates.get("matrix:tf32")
    left = min(sum(counted) / rate / scene.steps / seconds, 1.0) if rate else 0.0
    edit = Edit(factors={scene.script.work_at[work]: max(left, 1e-9) for work in slow})
    yield Hit(
        summary=f"float32 matrix kernels run without tensor cores: {scene.per_step(len(works)):.3g} a step",
        evidence={"device_share": scene.device_share(works), "flops_per_step": sum(counted) / scene.steps},
        places=[
            Place(
                where=name,
                count=scene.per_step(len(mine)),
                seconds=scene.device_s(mine),
            )
            for name in names
            if len(mine := works[[scene.trace.name(device, int(work)) == name for work in works]])
        ],
        gain_s=scene.price(edit),
        at_most=True,
        spans=spans_of(device, works),
    )


def _has_tf32(scene: Scene) -> bool:
    properties = scene.trace.metadata.get("deviceProperties")
    if not isinstance(properties, list) or not properties or not isinstance(properties[0], dict):
        return False
    major = properties[0].get("computeMajor", 0)
    return isinstance(major, int) and major >= FIRST_WITH_TF32


def _single(scene: Scene, row: int) -> bool:
    return "float" in types(scene.trace, row)[:3]
