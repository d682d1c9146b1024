"""A fused kernel takes longer than the kernels that it replaces (the TorchBench paper, PR 65594 and 72148)."""

import re

import numpy as np

from tare.findings import Context, Match, WhatIf, rule

SLOWER = 1.1
# Inductor writes the operators that it fused into the name of the kernel: triton_poi_fused_add_relu_0.
_FUSED = re.compile(r"triton_\w{2,4}_fused_(\w+?)_?\d*$")


@rule(
    "Do not fuse here: leave the function out of the compilation, or tune it (max-autotune, a larger workspace)."
)
def fused_slower(before: Context, after: Context) -> Match | None:
    """Between two traces fused kernels take at least 1.1 times as long as the kernels of the operators they
    name."""
    earlier, later = _launched_kernels(before), _launched_kernels(after)
    new = {name for name, _ in later.values()} - {name for name, _ in earlier.values()}
    fused = {name: match[1] for name in new if (match := _FUSED.search(name))}
    # Operators that the fused kernels name, and that no longer launch anything themselves.
    gone = {operator for _, operator in earlier.values()} - {operator for _, operator in later.values()} - {""}
    replaced = {operator for operator in gone if any(_contains(parts, operator) for parts in fused.values())}
    rows = [row for row, (name, _) in later.items() if name in fused]
    replaced_rows = [row for row, (_, operator) in earlier.items() if operator in replaced]
    fused_s, parts_s = after.seconds(after.trace.device, rows), before.seconds(before.trace.device, replaced_rows)
    if parts_s <= 0 or fused_s < SLOWER * parts_s:
        return None
    return Match(
        summary=f"{len(fused)} fused kernels take {fused_s / parts_s:.1f} times as long as what they replace",
        evidence={"fused_s_per_step": fused_s, "parts_s_per_step": parts_s, "parts": ", ".join(sorted(replaced))},
        locations=after.locations(after.trace.device, np.array(rows), lambda row: later[row][0]),
        saving_s=after.saving(WhatIf(factors=dict.fromkeys(rows, parts_s / fused_s))),
        spans=after.trace.device.intervals(rows),
    )


def _launched_kernels(context: Context) -> dict[int, tuple[str, str]]:
    """By row: the name of a kernel, and that of the innermost operator that launched it."""
    trace, device = context.trace, context.trace.device
    kernels = np.flatnonzero(device.kernels & context.launched)
    operators = trace.calls.operator[device.call[kernels]].tolist()
    return {
        kernel: (trace.name(device, kernel), trace.name(trace.operators, operator) if operator >= 0 else "")
        for kernel, operator in zip(kernels.tolist(), operators, strict=True)
    }


def _contains(parts: str, operator: str) -> bool:
    """Whether the name of a fused kernel has this operator as a whole word."""
    word = operator.removeprefix("aten::").strip("_")
    return f"_{word}_" in f"_{parts}_" or (word == "clamp_min" and "_relu_" in f"_{parts}_")
