"""float32 matrix products run without tensor cores on a GPU that has TF32."""

from tare.findings import Context, Match, WhatIf, flat, rule
from tare.trace.counting import CONVOLUTIONS, PRODUCTS, RECURRENT, flops, types
from tare.trace.metadata import has_tf32
from tare.trace.names import is_matrix, is_transformed, uses_tensor_cores

LEAST_SHARE = 0.05


@rule(
    "Allow TF32 (torch.set_float32_matmul_precision('high'), cudnn.allow_tf32) or use autocast, if 10 "
    "bits of mantissa do."
)
def tf32_off(context: Context) -> Match | None:
    """float32 matrix products, 5 % of the step or more, by kernels that use no tensor cores."""
    if not has_tf32(context.trace):
        return None
    trace, device = context.trace, context.trace.device
    slow = {
        row: kernels
        for row, launched in context.activities_by(context.operators(*PRODUCTS, *CONVOLUTIONS, *RECURRENT)).items()
        if "float" in types(trace, row)[:3] and (kernels := _without_tensor_cores(context, row, launched))
    }
    activities = flat(slow.values())
    share = context.device_share(activities)
    if share < LEAST_SHARE:
        return None
    counts, rate = {row: flops(trace, row) for row in slow}, context.rates.get("matrix:tf32")
    factors: dict[int, float] = {}
    for row, kernels in slow.items():
        # Next to nothing where the rate of TF32 is unknown.
        needed_ns = (counts[row] or 0) / rate * 1e9 if rate else 0.0
        remaining = needed_ns / max(int(device.duration[kernels].sum()), 1)
        factors |= dict.fromkeys(kernels, min(max(remaining, 1e-9), 1.0))
    return Match(
        summary=f"float32 matrix kernels run without tensor cores: {context.per_step(len(activities)):.3g} a step",
        evidence={
            "device_share": share,
            "flops_per_step": sum(count or 0 for count in counts.values()) / context.steps,
            "flops_per_s": rate,
        },
        locations=[
            context.location(context.product_location(row, kernels[0]), device.intervals(kernels), len(kernels))
            for row, kernels in slow.items()
        ],
        saving_s=context.saving(WhatIf(factors=factors)),
        bound="" if context.reaches_peak(counts.values(), rate) else "at most",
        spans=device.intervals(activities),
    )


def _without_tensor_cores(context: Context, row: int, launched: list[int]) -> list[int]:
    """The kernels that multiply matrices, and by their names not on tensor cores. All kernels of a convolution
    behind a Fourier or Winograd transform: with TF32 cuDNN chooses others, and most of the time may be in kernels
    whose names do not mention a product."""
    trace = context.trace
    names = {kernel: trace.name(trace.device, kernel) for kernel in launched}
    convolves = trace.name(trace.operators, row) in CONVOLUTIONS
    if convolves and any(map(is_transformed, names.values())) and not any(map(uses_tensor_cores, names.values())):
        return launched
    return [kernel for kernel, name in names.items() if is_matrix(name) and uses_tensor_cores(name) is False]
