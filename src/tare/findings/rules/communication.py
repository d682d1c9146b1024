"""Collectives that a step waits for: beside which nothing is computed, too many of too little, or begun by one
rank long before another."""

from itertools import pairwise

import numpy as np

from tare.findings import Context, Match, WhatIf, rule
from tare.trace.collectives import SYNCHRONISING
from tare.trace.intervals import Integers, difference, total

LEAST_SHARE = 0.05
# On NVLink and on InfiniBand a message of this size takes about as long as an empty one.
SMALL_BYTES = 256 << 10
# Where the size was not recorded, a collective this short is small (ns).
SMALL_NS = 50_000
FEWEST_SMALL = 8
# One of equal collectives waits if it takes this many times as long as the shortest, and this much longer (ns).
WAITING_RATIO, WAITING_NS = 1.5, 20_000
FEWEST_EQUAL = 4


@rule(
    "Overlap them: gradient buckets that start earlier (DDP's bucket_cap_mb, FSDP's prefetching), fewer of "
    "them (no_sync() while gradients accumulate), or smaller ones (a bfloat16 communication hook)."
)
def exposed_communication(context: Context) -> Match | None:
    """Collectives run for 5 % of the step or more while the device computes nothing."""
    device = context.trace.device
    rows = _rows(context)
    exposed = _exposed(context, rows)
    share = total(exposed) / context.steps / 1e9 / context.step_s
    if share < LEAST_SHARE:
        return None
    return Match(
        summary=f"nothing is computed beside collectives for {share:.0%} of the step",
        evidence={
            "exposed_s_per_step": total(exposed) / context.steps / 1e9,
            "collectives_per_step": context.per_step(len(rows)),
            "overlapped_share": 1 - total(exposed) / max(total(device.intervals(rows)), 1),
        },
        locations=context.locations(device, rows),
        # The host's waits get shorter too, which is not the collectives' doing.
        saving_s=min(context.saving(WhatIf(detached=frozenset(rows.tolist()))), share * context.step_s),
        # What can be computed meanwhile depends on the program.
        bound="at most",
        spans=exposed,
    )


@rule("Put them into one: larger buckets, one flattened tensor, torch.distributed's coalescing manager.")
def small_collectives(context: Context) -> Match | None:
    """At least 8 collectives a step of at most 256 KiB each, which take as long as their latency."""
    device, table = context.trace.device, context.collectives
    short = (table.bytes < 0) & (device.duration[table.rows] <= SMALL_NS)
    small = table.rows[((table.bytes >= 0) & (table.bytes <= SMALL_BYTES)) | short]
    if context.per_step(len(small)) < FEWEST_SMALL:
        return None
    latency = int(device.duration[small].min())
    # One of them a step stays; of the others what is more than the latency.
    kept = small[np.linspace(0, len(small) - 1, context.steps).astype(int)]
    removed = np.setdiff1d(small, kept)
    rest = 1 - latency / np.maximum(device.duration[removed], 1)
    operators = context.trace.calls.operator[device.call[removed]]
    host = context.trace.operators.intervals(context.roots(operators))
    return Match(
        summary=f"{context.per_step(len(small)):.0f} collectives a step are too small to fill a link",
        evidence={
            "collectives_per_step": context.per_step(len(small)),
            "median_us": float(np.median(device.duration[small])) / 1e3,
        },
        locations=context.locations(device, small),
        saving_s=context.saving(
            WhatIf(removed=host, factors=dict(zip(removed.tolist(), np.maximum(rest, 1e-9).tolist(), strict=True)))
        ),
        bound="at most",
        spans=device.intervals(small),
    )


@rule(
    "Find the rank that comes late: tare explain with the traces of all ranks names it. Usual causes: unequal "
    "batches or sequences, a loader, a slower or throttled device, logging or evaluation on one rank."
)
def waiting_collectives(context: Context) -> Match | None:
    """Equal collectives take very different times: most of the long ones is waiting for a rank that comes
    late."""
    device, table = context.trace.device, context.collectives
    labels = list(zip(table.operations, table.groups, table.bytes.tolist(), table.algorithms, strict=True))
    factors: dict[int, float] = {}
    for label in dict.fromkeys(labels):
        rows = table.rows[[each == label for each in labels]]
        if label[0] not in SYNCHRONISING or len(rows) < FEWEST_EQUAL:
            continue
        # Only what follows the transfer of another one is sure not to share the links with it.
        shortest = _usual_transfer(device.duration[rows])
        waits = rows[device.duration[rows] >= max(WAITING_RATIO * shortest, shortest + WAITING_NS)]
        factors |= {row: shortest / int(device.duration[row]) for row in waits.tolist()}
    rows = np.array(sorted(factors), dtype=np.int64)
    exposed = _exposed(context, rows)
    if total(exposed) / context.steps / 1e9 < LEAST_SHARE * context.step_s:
        return None
    waited = sum((1 - factor) * int(device.duration[row]) for row, factor in factors.items())
    return Match(
        summary=f"{context.times(len(rows))} a collective waits for another rank",
        evidence={
            "waiting_s_per_step": waited / context.steps / 1e9,
            "collectives_per_step": context.per_step(len(rows)),
        },
        locations=context.locations(device, rows),
        saving_s=context.saving(WhatIf(factors=factors)),
        bound="at most",
        spans=exposed,
    )


def _rows(context: Context) -> Integers:
    return np.flatnonzero(context.trace.communicates & context.launched)


def _exposed(context: Context, rows: Integers) -> Integers:
    device = context.trace.device
    others = device.intervals(device.kernels & ~context.trace.communicates)
    return difference(device.intervals(rows), others)


def _usual_transfer(durations: Integers) -> int:
    """The shortest that is no accident: as long as the next one, about."""
    ordered: list[int] = np.sort(durations).tolist()
    near = (first for first, second in pairwise(ordered) if second <= WAITING_RATIO * first)
    return max(next(near, ordered[0]), 1)
