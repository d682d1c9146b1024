"""A cache of keys and values that grows by concatenation: every step copies all of it to append a little."""

import numpy as np

from tare.findings import Context, Match, rule
from tare.findings.replacing import SHORTEST_NS, durations, shortened
from tare.trace.counting import shape_lists
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
    appending: dict[int, float] = {}
    for row, at in zip(rows.tolist(), step.tolist(), strict=True):
        if at >= 0 and (sizes := _appended_to(context, row)):
            long, short = sizes
            # Only the new entries are written.
            appending[row] = short / (long + short)
            lengths.setdefault(at, []).append(long)
    longest = [max(of_step) for _, of_step in sorted(lengths.items())]
    grows = len(longest) >= 2 and len(longest) >= context.steps and bool((np.diff(longest) > 0).all())
    if not grows or context.per_step(len(appending)) < FEWEST_PER_STEP:
        return None
    chosen = np.array(list(appending), dtype=np.int64)
    taken = durations(context, chosen)
    # That takes an operator as well.
    left = {row: min(max(share, SHORTEST_NS / max(taken[row], 1)), 1.0) for row, share in appending.items()}
    return Match(
        summary=f"{context.per_step(len(chosen)):.3g} concatenations a step copy a cache of {longest[-1]} entries "
        "to append to it",
        evidence={"concatenations_per_step": context.per_step(len(chosen)), "entries": longest[-1]},
        locations=context.locations(table, chosen),
        saving_s=context.saving(shortened(context, left)),
        spans=context.work(chosen),
    )


def _appended_to(context: Context, row: int) -> tuple[int, int] | None:
    """How long two tensors are in one dimension, if the second is far shorter in it and equal in the others."""
    tensors = next(iter(shape_lists(context.trace, row)), [])
    if len(tensors) != 2:
        return None
    first, second = tensors
    if len(first) != len(second) or len(first) < FEWEST_DIMENSIONS:
        return None
    different = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
    if len(different) != 1 or different[0][0] < LEAST_RATIO * max(different[0][1], 1):
        return None
    return different[0]
