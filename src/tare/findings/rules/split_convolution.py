"""The library computes a convolution in many kernels, one for each group or frequency, too small for a GPU."""

import msgspec
import numpy as np

from tare.findings import Context, Match, WhatIf, flat, rule
from tare.trace.counting import CONVOLUTIONS, flops, shapes, types
from tare.trace.metadata import has_tf32
from tare.trace.names import is_matrix

# A backward convolution that is not split has fewer multiplying kernels, even with each gradient computed in
# two.
FEWEST_KERNELS = 6
LEAST_SHARE = 0.05
RATES = {"float": "matrix:fp32", "c10::BFloat16": "matrix:bf16", "c10::Half": "matrix:fp16"}

WITHOUT_TF32 = (
    "Use half precision: then the library leaves them whole (this device has no TF32). If it must be full "
    "float32, measure channels-last: it helps some and slows others."
)


@rule(
    "Allow TF32 (cudnn.allow_tf32) or use half precision: then cuDNN leaves them whole. If it must be full "
    "float32, measure channels-last: it helps some and slows others."
)
def split_convolution(context: Context) -> Match | None:
    """Convolutions of which each is 6 kernels that multiply, or more; 5 % of the step or more."""
    trace, device = context.trace, context.trace.device
    split = {
        row: kernels
        for row, kernels in context.activities_by(context.operators(*CONVOLUTIONS)).items()
        if sum(is_matrix(trace.name(device, kernel)) for kernel in kernels) >= FEWEST_KERNELS
    }
    activities = flat(split.values())
    share = context.device_share(activities)
    if share < LEAST_SHARE:
        return None
    most = max(map(len, split.values()))
    at_peak = all(context.reaches_peak([flops(trace, row)], _rate(context, row)) for row in split)
    return Match(
        summary=f"convolutions are cut into up to {most} kernels: {context.per_step(len(activities)):.3g} a step",
        evidence={
            "device_share": share,
            "convolutions_per_step": context.per_step(len(split)),
            "most_kernels": most,
        },
        locations=[
            context.location(_where(context, row, kernels[0]), device.intervals(kernels), len(kernels))
            for row, kernels in split.items()
        ],
        saving_s=context.saving(_in_one_kernel(context, split)),
        bound="" if at_peak else "at most",
        remedy=None if has_tf32(trace) or not trace.metadata.get("deviceProperties") else WITHOUT_TF32,
        spans=device.intervals(activities),
    )


def _in_one_kernel(context: Context, split: dict[int, list[int]]) -> WhatIf:
    """Only the first kernel of each convolution, for as long as the work takes at the measured peak rate; next
    to nothing where the rate is unknown."""
    device = context.trace.device
    # Activities are sorted by start.
    firsts = {row: min(kernels) for row, kernels in split.items()}
    others = np.setdiff1d(flat(split.values()), list(firsts.values()))
    what_if = context.without(np.setdiff1d(device.call[others], device.call[list(firsts.values())]))
    factors = dict(what_if.factors)
    for row, first in firsts.items():
        rate, count = _rate(context, row), flops(context.trace, row)
        needed_ns = count / rate * 1e9 if rate and count else 1.0
        factors[first] = needed_ns / max(int(device.duration[first]), 1)
    return msgspec.structs.replace(what_if, factors=factors)


def _rate(context: Context, row: int) -> float | None:
    """The peak of the precision that the convolution has, also where the remedy is another precision: at this
    size a convolution reaches no more."""
    return context.rates.get(RATES.get(next(iter(types(context.trace, row)), ""), ""))


def _where(context: Context, row: int, kernel: int) -> str:
    where = context.locator.of_activity(kernel)
    dims = ["x".join(map(str, shape)) for shape in shapes(context.trace, row)[:2]]
    return f"{where}: {' by '.join(dims)}" if dims else where
