"""Matrix products whose rows do not start at multiples of 16 bytes: tensor cores read them at half the width or
less."""

import numpy as np

from tare.findings import Context, Evidence, Location, Match, WhatIf, rule, spans_of
from tare.trace.counting import ITEM_BYTES, PRODUCTS, Product, product

# Tensor cores want leading dimensions of a multiple of 16 bytes (cuBLAS documentation, tensor core usage).
ALIGNMENT = 16
LEAST_SHARE = 0.05
PRECISION = {"c10::BFloat16": "bf16", "c10::Half": "fp16"}


@rule(
    "off-multiple-shapes",
    sees="Half-precision matrix products, 5 % of the step or more, with a dimension that is no multiple of 8.",
    remedy="Pad the dimension to a multiple of 8 (better 64): vocabulary, classes, channels, sequence.",
)
def look(context: Context) -> Match | None:
    device = context.trace.device
    by_location: dict[str, list[int]] = {}
    misaligned: dict[int, Product] = {}
    aligned_rate = 0.0
    launched = context.activities_by(context.operators(*PRODUCTS))
    for row, kernels in launched.items():
        shape = product(context.trace, row)
        if shape is None or shape.type not in PRECISION:
            continue
        if not is_misaligned(shape):
            ns = float(device.duration[kernels].sum())
            aligned_rate = max(aligned_rate, shape.flops / ns * 1e9 if ns else 0.0)
        elif kernels:
            misaligned[row] = shape
            by_location.setdefault(context.product_location(row, kernels[0]), []).append(row)
    activities = np.array([kernel for row in misaligned for kernel in launched[row]], dtype=np.int64)
    share = context.device_share(activities)
    if share < LEAST_SHARE:
        return None
    dtype = next(iter(misaligned.values())).type
    peak = context.rates.get(f"matrix:{PRECISION[dtype]}")
    rate = peak or aligned_rate
    counts = [shape.flops for shape in misaligned.values()]
    saving = None
    if rate:
        remaining = min(sum(counts) / rate / context.steps / context.device_s(activities), 1.0)
        saving = context.saving(WhatIf(factors=dict.fromkeys(activities.tolist(), remaining)))
    evidence: Evidence = {"device_share": share, "type": dtype}
    count = context.per_step(len(misaligned))
    return Match(
        summary=f"matrix products have dimensions off the multiple of 8: {count:.3g} a step",
        evidence=evidence | ({"flops_per_s": rate} if rate else {}),
        locations=[
            Location(
                where=where,
                count=context.per_step(len(rows)),
                seconds=context.device_s(np.array([kernel for row in rows for kernel in launched[row]])),
            )
            for where, rows in by_location.items()
        ],
        saving_s=saving,
        bound="at most" if saving is not None and not context.reaches_peak(counts, peak) else "",
        severity=None if saving is not None else ("medium" if share >= 0.2 else "low"),
        spans=spans_of(device, activities),
    )


def is_misaligned(shape: Product) -> bool:
    """Whether the rows of a factor or of the result are not multiples of 16 bytes apart."""
    item = ITEM_BYTES.get(shape.type, 4)
    leading = [shape.n]
    if shape.strides:
        # The stride that is not 1: the distance between rows, or between columns of a transposed factor.
        leading += [max(stride[-2:]) for stride in shape.strides if len(stride) >= 2]
    else:
        leading += [shape.k]
    return any(dimension > 1 and dimension * item % ALIGNMENT for dimension in leading)
