"""float32 matrix products run without tensor cores on a GPU that has TF32."""

import numpy as np

from tare.findings import Context, Evidence, Match, WhatIf, rule, spans_of
from tare.trace.counting import CONVOLUTIONS, PRODUCTS, RECURRENT, flops, types
from tare.trace.names import is_matrix, is_transformed, uses_tensor_cores

LEAST_SHARE = 0.05
# TF32 came with compute capability 8.0.
FIRST_WITH_TF32 = 8


@rule(
    "tf32-off",
    sees="float32 matrix products, 5 % of the step or more, by kernels that use no tensor cores.",
    remedy="Allow TF32 (torch.set_float32_matmul_precision('high'), cudnn.allow_tf32) or use autocast, if 10 "
    "bits of mantissa do.",
)
def look(context: Context) -> Match | None:
    if not _has_tf32(context):
        return None
    trace, device = context.trace, context.trace.device
    candidates = context.operators(*PRODUCTS, *CONVOLUTIONS, *RECURRENT)
    float32 = np.array([row for row in candidates.tolist() if "float" in types(trace, row)[:3]], dtype=np.int64)
    slow = {
        row: kernels
        for row, launched in context.activities_by(float32).items()
        if (kernels := _without_tensor_cores(context, row, launched))
    }
    activities = np.array([kernel for kernels in slow.values() for kernel in kernels], dtype=np.int64)
    share = context.device_share(activities)
    if share < LEAST_SHARE:
        return None
    counts = {row: flops(trace, row) for row in slow}
    rate = context.rates.get("matrix:tf32")
    factors = {
        kernel: _remaining_share(counts[row], rate, int(device.duration[kernels].sum()))
        for row, kernels in slow.items()
        for kernel in kernels
    }
    computed = sum(count or 0 for count in counts.values()) / context.steps
    evidence: Evidence = {"device_share": share, "flops_per_step": computed}
    return Match(
        summary=f"float32 matrix kernels run without tensor cores: {context.per_step(len(activities)):.3g} a step",
        evidence=evidence | ({"flops_per_s": rate} if rate else {}),
        locations=[
            context.device_location(context.product_location(row, kernels[0]), kernels)
            for row, kernels in slow.items()
        ],
        saving_s=context.saving(WhatIf(factors=factors)),
        bound="" if context.reaches_peak(list(counts.values()), rate) else "at most",
        spans=spans_of(device, activities),
    )


def _without_tensor_cores(context: Context, row: int, launched: list[int]) -> list[int]:
    """The kernels that multiply matrices, and by their names not on tensor cores. All kernels of a convolution
    behind a Fourier or Winograd transform: with TF32 cuDNN chooses others, and most of the time may be in kernels
    whose names do not mention a product."""
    trace = context.trace
    names = {kernel: trace.name(trace.device, kernel) for kernel in launched if context.launched[kernel]}
    convolves = trace.name(trace.operators, row) in CONVOLUTIONS
    if convolves and any(map(is_transformed, names.values())) and not any(map(uses_tensor_cores, names.values())):
        return list(names)
    return [kernel for kernel, name in names.items() if is_matrix(name) and uses_tensor_cores(name) is False]


def _remaining_share(count: int | None, rate: float | None, ns: int) -> float:
    """Of an operator's time at the rate of TF32; next to nothing where that rate is unknown."""
    needed = count / rate * 1e9 / max(ns, 1) if count and rate else 0.0
    return min(max(needed, 1e-9), 1.0)


def _has_tf32(context: Context) -> bool:
    properties = context.trace.metadata.get("deviceProperties")
    if not isinstance(properties, list) or not properties or not isinstance(properties[0], dict):
        return False
    major = properties[0].get("computeMajor", 0)
    return isinstance(major, int) and major >= FIRST_WITH_TF32
