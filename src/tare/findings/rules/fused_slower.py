"""The TorchBench paper, PR 65594 and 72148: a fused kernel that takes longer than the kernels it replaces."""

import re
from collections.abc import Iterator

import numpy as np

from tare.findings.compared import kernel_times, operations
from tare.findings.context import Scene, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.replay import Edit

SLOWER = 1.1
# Inductor writes the operators that it fused into the kernel's name: triton_poi_fused_add_relu_0.
_FUSED = re.compile(r"triton_\w{2,4}_fused_(\w+?)_?\d*$")


@rule(
    "fused-slower",
    sees="Between two traces fused kernels take at least 1.1 times as long as the kernels of the operators they "
    "name.",
    remedy="Do not fuse here: leave the function out of the compilation, or tune it (max-autotune, a larger "
    "workspace).",
    pair=True,
)
def look(before: Scene, after: Scene) -> Iterator[Hit]:
    new = {name: found for name, found in kernel_times(after).items() if name not in kernel_times(before)}
    fused = {name: match[1] for name in new if (match := _FUSED.search(name))}
    if not fused:
        return
    # Operators that the fused kernels name, and that launch nothing of their own any more.
    still = {entry.name for entry in operations(after).values() if entry.kernels}
    replaced: dict[str, float] = {}
    for entry in operations(before).values():
        plain = entry.name.removeprefix("aten::").strip("_")
        if entry.kernels and entry.name not in still and any(_names(parts, plain) for parts in fused.values()):
            replaced[entry.name] = replaced.get(entry.name, 0.0) + entry.device_s
    taken, parts_s = sum(new[name][1] for name in fused), sum(replaced.values())
    if parts_s <= 0 or taken < SLOWER * parts_s:
        return
    works = np.flatnonzero(np.isin([after.trace.names[int(n)] for n in after.trace.device.name], list(fused)))
    at = after.script.work_at
    shorter = {at[work]: parts_s / taken for work in works.tolist() if work in at}
    yield Hit(
        summary=f"{len(fused)} fused kernels take {taken / parts_s:.1f} times as long as what they replace",
        evidence={"fused_s_per_step": taken, "parts_s_per_step": parts_s, "parts": ", ".join(sorted(replaced))},
        places=[Place(where=name, count=new[name][0], seconds=new[name][1]) for name in fused],
        gain_s=after.price(Edit(factors=shorter)),
        spans=spans_of(after.trace.device, works),
    )


def _names(parts: str, operator: str) -> bool:
    """Whether a fused kernel's name holds this operator as a whole word."""
    return f"_{operator}_" in f"_{parts}_" or (operator == "clamp_min" and "_relu_" in f"_{parts}_")
