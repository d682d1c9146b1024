"""Copies between host and device for which a step waits: of memory that is not pinned, alone on the device, or
there and back again."""

import numpy as np

from tare.findings import Context, Match, WhatIf, flat, rule
from tare.findings.finding import Bound
from tare.findings.rules.host_made_tensors import host_made_copies
from tare.trace.intervals import difference, intersection, make, total, union
from tare.trace.tables import COPY, DEVICE_TO_HOST, HOST_TO_DEVICE, PAGEABLE, PINNED, Integers

# The driver puts smaller copies into the command itself: pinning changes nothing.
LEAST_BYTES = 64 << 10
# Host time of the call that remains where the memory is pinned (ns).
CALL_NS = 10_000
LEAST_EXPOSED_SHARE = 0.02
# Of a tensor that goes to the host and back, and in a step.
LEAST_TENSOR_BYTES, FEWEST_TENSORS = 4096, 4


@rule(
    "Pin the host's side (pin_memory=True in the DataLoader, tensor.pin_memory()) and copy with non_blocking=True."
)
def pageable_copies(context: Context) -> Match | None:
    """Copies of 64 KiB or more between the device and pageable host memory."""
    device, calls = context.trace.device, context.trace.calls
    pageable = (device.kind == COPY) & (device.memory == PAGEABLE) & (device.bytes >= LEAST_BYTES)
    # Those that parameter-ping-pong and host-made-tensors report should not be made at all.
    others = np.union1d(ping_pong_copies(context), host_made_copies(context))
    copies = np.setdiff1d(np.flatnonzero(pageable & context.launched), others)
    seconds = context.seconds(device, copies)
    if seconds == 0:
        return None
    launching = np.unique(device.call[copies])
    operators = np.unique(calls.operator[launching])
    waits = context.syncs[np.isin(calls.operator[context.syncs], operators[operators >= 0])]
    rate = _pinned_rate(context)
    remaining = device.bytes[copies] / (rate or np.inf) * 1e9 / np.maximum(device.duration[copies], 1)
    what_if = WhatIf(
        removed=union(make(calls.start[launching] + CALL_NS, calls.end[launching]), calls.intervals(waits)),
        unwaited=frozenset((*launching.tolist(), *waits.tolist())),
        factors=dict(zip(copies.tolist(), np.minimum(remaining, 1.0).tolist(), strict=True)),
    )
    bytes_per_s = int(device.bytes[copies].sum()) / context.steps / seconds
    return _match(
        context,
        copies,
        what_if,
        f"copies touch pageable memory: {context.per_step(len(copies)):.3g} a step",
        {"bytes_per_s": bytes_per_s, "pinned_bytes_per_s": rate},
        bound="at most" if rate is None else "",
    )


def _pinned_rate(context: Context) -> float | None:
    """Bytes per second of a pinned copy: measured on this machine, or seen in this trace."""
    if known := context.rates.get("copy:host-to-device:pinned"):
        return known
    device = context.trace.device
    rows = (device.memory == PINNED) & (device.bytes >= 1 << 20) & (device.direction == HOST_TO_DEVICE)
    if not rows.any():
        return None
    return float(np.median(device.bytes[rows] / np.maximum(device.duration[rows], 1)) * 1e9)


@rule("Copy the next batch on a second stream while this one is computed (prefetch).")
def exposed_copies(context: Context) -> Match | None:
    """Asynchronous copies of pinned memory to the device while kernels wait: 2 % of the step or more."""
    device, calls = context.trace.device, context.trace.calls
    pinned = (device.kind == COPY) & (device.memory == PINNED) & (device.direction == HOST_TO_DEVICE)
    copies = np.flatnonzero(pinned & (device.bytes >= LEAST_BYTES) & context.launched)
    alone = difference(device.intervals(copies), device.intervals(device.kernels))
    # When no kernel has been launched that has not started, a copy delays nothing.
    launched = np.flatnonzero(device.kernels & (device.call >= 0))
    waiting = make(calls.end[device.call[launched]], device.start[launched])
    exposed_s = total(intersection(alone, waiting)) / context.steps / 1e9
    share = exposed_s / context.step_s
    if share < LEAST_EXPOSED_SHARE:
        return None
    summary = f"copies run alone: {context.per_step(len(copies)):.3g} a step, {share:.0%} of it"
    beside = WhatIf(detached=frozenset(copies.tolist()))
    return _match(context, copies, beside, summary, {"exposed_s_per_step": exposed_s})


@rule("Keep them on the device if the peak of memory allows it; offload only what does not fit.")
def parameter_ping_pong(context: Context) -> Match | None:
    """At least 4 tensors a step, of 4 KiB or more, leave the device and come back in the same sizes."""
    # The TorchBench paper, section 4.1.2: pig2.
    copies, table = ping_pong_copies(context), context.trace.calls
    if len(copies) == 0:
        return None
    tensors = context.per_step(len(copies) // 2)
    calls = np.unique(context.trace.device.call[copies])
    roots = context.roots(table.operator[calls])
    removed_calls = np.union1d(calls, context.calls_under(roots))
    return _match(
        context,
        copies,
        context.without(removed_calls, context.trace.operators.intervals(roots)),
        f"tensors go to the host and back: {tensors:.3g} a step",
        {"tensors_per_step": tensors, "device_share": context.device_share(copies)},
    )


def ping_pong_copies(context: Context) -> Integers:
    """Copies to the device and to the host, each of which has one of its size in the other direction; none where
    they are few."""
    device = context.trace.device
    large = (device.kind == COPY) & (device.bytes >= LEAST_TENSOR_BYTES) & context.launched
    there, back = (np.flatnonzero(large & (device.direction == d)) for d in (HOST_TO_DEVICE, DEVICE_TO_HOST))
    pairs: list[tuple[int, int]] = []
    for size in np.intersect1d(device.bytes[there], device.bytes[back]).tolist():
        pairs += zip(there[device.bytes[there] == size], back[device.bytes[back] == size], strict=False)
    return flat(pairs if context.per_step(len(pairs)) >= FEWEST_TENSORS else [])


def _match(
    context: Context,
    copies: Integers,
    what_if: WhatIf,
    summary: str,
    evidence: dict[str, float | None],
    bound: Bound = "",
) -> Match:
    device = context.trace.device
    return Match(
        summary=summary,
        evidence={"bytes_per_step": int(device.bytes[copies].sum()) / context.steps, **evidence},
        locations=context.locations(device, copies),
        saving_s=context.saving(what_if),
        bound=bound,
        spans=device.intervals(copies),
    )
