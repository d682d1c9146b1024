"""Matrix products whose rows do not start at multiples of 16 bytes: tensor cores read them at half the width or
less."""

from tare.findings import Context, Match, WhatIf, flat, rule
from tare.trace.counting import ITEM_BYTES, PRODUCTS, Product, product

# Tensor cores want leading dimensions of a multiple of 16 bytes (cuBLAS documentation, tensor core usage).
ALIGNMENT = 16
LEAST_SHARE = 0.05
PRECISION = {"c10::BFloat16": "bf16", "c10::Half": "fp16"}


@rule("Pad the dimension to a multiple of 8 (better 64): vocabulary, classes, channels, sequence.")
def off_multiple_shapes(context: Context) -> Match | None:
    """Half-precision matrix products, 5 % of the step or more, with a dimension that is no multiple of 8."""
    device, launched = context.trace.device, context.activities_by(context.operators(*PRODUCTS))
    products = {
        row: shape for row in launched if (shape := product(context.trace, row)) and shape.type in PRECISION
    }
    misaligned = {row: shape for row, shape in products.items() if launched[row] and is_misaligned(shape)}
    activities = flat(launched[row] for row in misaligned)
    share = context.device_share(activities)
    if share < LEAST_SHARE:
        return None
    dtype = next(iter(misaligned.values())).type
    peak = context.rates.get(f"matrix:{PRECISION[dtype]}")
    aligned_rates = [
        shape.flops / ns * 1e9
        for row, shape in products.items()
        if not is_misaligned(shape) and (ns := int(device.duration[launched[row]].sum()))
    ]
    rate = peak or max(aligned_rates, default=None)
    counts = [shape.flops for shape in misaligned.values()]
    saving = None
    if rate:
        remaining = min(sum(counts) / rate / context.steps / context.seconds(device, activities), 1.0)
        saving = context.saving(WhatIf(factors=dict.fromkeys(activities.tolist(), remaining)))
    count = context.per_step(len(misaligned))
    return Match(
        summary=f"matrix products have dimensions off the multiple of 8: {count:.3g} a step",
        evidence={"device_share": share, "type": dtype, "flops_per_s": rate},
        locations=[
            context.location(context.product_location(row, launched[row][0]), device.intervals(launched[row]))
            for row in misaligned
        ],
        saving_s=saving,
        bound="at most" if saving is not None and not context.reaches_peak(counts, peak) else "",
        severity=None if saving is not None else ("medium" if share >= 0.2 else "low"),
        spans=device.intervals(activities),
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
