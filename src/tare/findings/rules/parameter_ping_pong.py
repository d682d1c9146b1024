"""What was moved off the device is moved back in every step (the TorchBench paper, section 4.1.2: pig2)."""

from collections import Counter

import numpy as np

from tare.findings import Context, Match, rule, spans_of
from tare.trace.tables import COPY, DEVICE_TO_HOST, HOST_TO_DEVICE, Integers

LEAST_BYTES = 4096
FEWEST = 4


@rule(
    "parameter-ping-pong",
    sees="At least 4 tensors a step, of 4 KiB or more, leave the device and come back in the same sizes.",
    remedy="Keep them on the device if the peak of memory allows it; offload only what does not fit.",
)
def look(context: Context) -> Match | None:
    device = context.trace.device
    back, there = there_and_back(context)
    tensors = context.per_step(len(back))
    if tensors < FEWEST:
        return None
    copies = np.union1d(back, there)
    calls = np.unique(device.call[copies])
    roots = context.roots(context.trace.calls.operator[calls])
    removed_calls = np.union1d(calls, context.calls_under(roots))
    return Match(
        summary=f"tensors go to the host and back: {tensors:.3g} a step",
        evidence={
            "bytes_per_step": int(device.bytes[copies].sum()) / context.steps,
            "tensors_per_step": tensors,
            "device_share": context.device_share(copies),
        },
        locations=context.copy_locations(copies),
        saving_s=context.saving(context.without(removed_calls, spans_of(context.trace.operators, roots))),
        spans=spans_of(device, copies),
    )


def there_and_back(context: Context) -> tuple[Integers, Integers]:
    """Copies to the device and copies to the host, each of which has one of its size in the other direction."""
    device = context.trace.device
    large = (device.kind == COPY) & (device.bytes >= LEAST_BYTES) & context.launched
    to_device, to_host = (
        np.flatnonzero(large & (device.direction == d)) for d in (HOST_TO_DEVICE, DEVICE_TO_HOST)
    )
    common = Counter(device.bytes[to_device].tolist()) & Counter(device.bytes[to_host].tolist())
    return _matched(device.bytes, to_device, common), _matched(device.bytes, to_host, common)


def _matched(sizes: Integers, rows: Integers, wanted: Counter[int]) -> Integers:
    remaining = Counter(wanted)
    kept = []
    for row in rows.tolist():
        size = int(sizes[row])
        if remaining[size]:
            remaining[size] -= 1
            kept.append(row)
    return np.array(kept, dtype=np.int64)
