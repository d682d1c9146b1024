"""Copies from pageable memory go slowly through a staging buffer, while the program waits."""

import numpy as np

from tare.findings import Context, Evidence, Match, WhatIf, rule, spans_of
from tare.findings.rules.parameter_ping_pong import FEWEST, there_and_back
from tare.trace.tables import COPY, HOST_TO_DEVICE, PAGEABLE, PINNED, Integers

# The driver puts smaller copies into the command itself: pinning changes nothing.
LEAST_BYTES = 64 << 10
# Host time of the call that remains (ns).
CALL_NS = 10_000


@rule(
    "pageable-copies",
    sees="Copies of 64 KiB or more between the device and pageable host memory.",
    remedy="Pin the host's side (pin_memory=True in the DataLoader, tensor.pin_memory()) and copy with "
    "non_blocking=True.",
)
def look(context: Context) -> Match | None:
    device, calls = context.trace.device, context.trace.calls
    copies = _pageable_copies(context)
    seconds = context.device_s(copies)
    if seconds == 0:
        return None
    launching = np.unique(device.call[copies])
    operators = np.unique(calls.operator[launching])
    waits = context.syncs[np.isin(calls.operator[context.syncs], operators[operators >= 0])]
    rate = _pinned_rate(context)
    what_if = WhatIf(
        removed=[(int(calls.start[row]) + CALL_NS, int(calls.end[row])) for row in launching.tolist()]
        + spans_of(calls, waits),
        unwaited=frozenset((*launching.tolist(), *waits.tolist())),
        factors={row: _remaining_share(context, row, rate) for row in copies.tolist()},
    )
    moved = int(device.bytes[copies].sum()) / context.steps
    evidence: Evidence = {"bytes_per_step": moved, "bytes_per_s": moved / seconds}
    return Match(
        summary=f"copies touch pageable memory: {context.per_step(len(copies)):.3g} a step",
        evidence=evidence | ({"pinned_bytes_per_s": rate} if rate else {}),
        locations=context.copy_locations(copies),
        saving_s=context.saving(what_if),
        bound="at most" if rate is None else "",
        spans=spans_of(device, copies),
    )


def _pageable_copies(context: Context) -> Integers:
    """Large pageable copies, without those that parameter-ping-pong reports: they should not be made at all."""
    device = context.trace.device
    pageable = (device.kind == COPY) & (device.memory == PAGEABLE) & (device.bytes >= LEAST_BYTES)
    rows = np.flatnonzero(pageable & context.launched)
    back, there = there_and_back(context)
    if context.per_step(len(back)) >= FEWEST:
        rows = np.setdiff1d(rows, np.union1d(back, there))
    return rows


def _pinned_rate(context: Context) -> float | None:
    """Bytes per second of a pinned copy: measured on this machine, or seen in this trace."""
    if known := context.rates.get("copy:host-to-device:pinned"):
        return known
    device = context.trace.device
    pinned = (device.memory == PINNED) & (device.bytes >= 1 << 20) & (device.direction == HOST_TO_DEVICE)
    rows = np.flatnonzero(pinned)
    if len(rows) == 0:
        return None
    return float(np.median(device.bytes[rows] / np.maximum(device.duration[rows], 1)) * 1e9)


def _remaining_share(context: Context, row: int, rate: float | None) -> float:
    device = context.trace.device
    if rate is None:
        return 0.0
    return min(float(device.bytes[row]) / rate * 1e9 / max(float(device.duration[row]), 1.0), 1.0)
