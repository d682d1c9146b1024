"""A cache of keys and values that grows by concatenation: every step copies all of it to append a little."""

from typing import Any

import msgspec
import numpy as np

from tare.findings import Context, Match, rule
from tare.trace.windows import counted_step

FEWEST_PER_STEP = 2
# What is appended is this many times shorter than what it is appended to.
LEAST_RATIO = 8
# The least number of dimensions: batch, length, features.
FEWEST_DIMENSIONS = 3


@rule(
    "Allocate the cache for the longest sequence once and write into it (transformers' StaticCache, index_copy_): "
    "then the step can also be captured in a graph."
)
def growing_cache(context: Context) -> Match | None:
    """At least 2 concatenations a step append a little to a long tensor that is longer in every step."""
    table = context.trace.operators
    rows = context.operators("aten::cat")
    step = counted_step(context.trace, table.start[rows])
    lengths: dict[int, list[int]] = {}
    appending = []
    for row, at in zip(rows.tolist(), step.tolist(), strict=True):
        length = _appended_to(context, row)
        if length is not None and at >= 0:
            appending.append(row)
            lengths.setdefault(at, []).append(length)
    longest = [max(of_step) for _, of_step in sorted(lengths.items())]
    grows = len(longest) >= 2 and len(longest) >= context.steps and bool((np.diff(longest) > 0).all())
    if not grows or context.per_step(len(appending)) < FEWEST_PER_STEP:
        return None
    chosen = np.array(appending, dtype=np.int64)
    calls = context.calls_under(chosen)
    activities = context.activities_of(calls)
    return Match(
        summary=f"{context.per_step(len(chosen)):.3g} concatenations a step copy a cache of {longest[-1]} entries "
        "to append to it",
        evidence={"concatenations_per_step": context.per_step(len(chosen)), "entries": longest[-1]},
        locations=context.locations(table, chosen),
        # Writing the new entries takes a launch as well: only the device's time goes.
        saving_s=context.saving(
            msgspec.structs.replace(context.without(calls[:0]), factors=dict.fromkeys(activities.tolist(), 1e-9))
        ),
        bound="at most",
        spans=context.trace.device.intervals(activities),
    )


def _appended_to(context: Context, row: int) -> int | None:
    """How long the first of two tensors is, if the second is far shorter in one dimension and equal in the
    others."""
    text = context.trace.inputs_of(row).dims
    value: Any = msgspec.json.decode(text) if text else None
    tensors = value[0] if isinstance(value, list) and value else None
    if not isinstance(tensors, list) or len(tensors) != 2:
        return None
    first, second = tensors
    if not all(isinstance(shape, list) and all(isinstance(n, int) for n in shape) for shape in (first, second)):
        return None
    if len(first) != len(second) or len(first) < FEWEST_DIMENSIONS:
        return None
    different = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
    if len(different) != 1 or different[0][0] < LEAST_RATIO * max(different[0][1], 1):
        return None
    return int(different[0][0])
