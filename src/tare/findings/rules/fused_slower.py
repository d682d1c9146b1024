"""A fused kernel takes longer than the kernels that it replaces (the TorchBench paper, PR 65594 and 72148)."""

import re

import numpy as np

from tare.findings import Context, Location, Match, WhatIf, rule, spans_of
from tare.findings.compared import kernel_times, shaped_operators

SLOWER = 1.1
# Inductor writes the operators that it fused into the name of the kernel: triton_poi_fused_add_relu_0.
_FUSED = re.compile(r"triton_\w{2,4}_fused_(\w+?)_?\d*$")


@rule(
    "fused-slower",
    sees="Between two traces fused kernels take at least 1.1 times as long as the kernels of the operators they "
    "name.",
    remedy="Do not fuse here: leave the function out of the compilation, or tune it (max-autotune, a larger "
    "workspace).",
    pair=True,
)
def look(before: Context, after: Context) -> Match | None:
    earlier = kernel_times(before)
    new = {name: times for name, times in kernel_times(after).items() if name not in earlier}
    fused = {name: match[1] for name in new if (match := _FUSED.search(name))}
    if not fused:
        return None
    # Operators that the fused kernels name, and that no longer launch anything themselves.
    still_launching = {operator.name for operator in shaped_operators(after).values() if operator.kernels}
    replaced: dict[str, float] = {}
    for operator in shaped_operators(before).values():
        short = operator.name.removeprefix("aten::").strip("_")
        named = any(_contains(parts, short) for parts in fused.values())
        if operator.kernels and operator.name not in still_launching and named:
            replaced[operator.name] = replaced.get(operator.name, 0.0) + operator.device_s
    fused_s, parts_s = sum(new[name][1] for name in fused), sum(replaced.values())
    if parts_s <= 0 or fused_s < SLOWER * parts_s:
        return None
    device = after.trace.device
    kernels = np.flatnonzero(np.isin([after.trace.names[int(name)] for name in device.name], list(fused)))
    return Match(
        summary=f"{len(fused)} fused kernels take {fused_s / parts_s:.1f} times as long as what they replace",
        evidence={"fused_s_per_step": fused_s, "parts_s_per_step": parts_s, "parts": ", ".join(sorted(replaced))},
        locations=[Location(where=name, count=new[name][0], seconds=new[name][1]) for name in fused],
        saving_s=after.saving(WhatIf(factors=dict.fromkeys(kernels.tolist(), parts_s / fused_s))),
        spans=spans_of(device, kernels),
    )


def _contains(parts: str, operator: str) -> bool:
    """Whether the name of a fused kernel has this operator as a whole word."""
    return f"_{operator}_" in f"_{parts}_" or (operator == "clamp_min" and "_relu_" in f"_{parts}_")
