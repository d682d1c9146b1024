"""A Python number is copied to the device to become a tensor, in every step (the TorchBench paper, listing 3)."""

import numpy as np

from tare.findings import Context, Match, flat, rule
from tare.trace.counting import ITEM_BYTES, shapes, types
from tare.trace.tables import COPY, HOST_TO_DEVICE

SCALAR_BYTES = 8


@rule("Keep the number in Python (x * 0.5, math.sqrt) or make its tensor on the device once, before the loop.")
def scalar_copies(context: Context) -> Match | None:
    """Copies of single numbers (at most 8 bytes) from host to device in every step."""
    device, table = context.trace.device, context.trace.calls
    to_device = (device.kind == COPY) & (device.direction == HOST_TO_DEVICE) & context.launched
    copies = np.flatnonzero(to_device & (device.bytes > 0) & (device.bytes <= SCALAR_BYTES))
    calls = np.unique(device.call[copies])
    if not context.in_every_step(table, calls):
        return None
    groups = [_dependent_operators(context, row) for row in context.roots(table.operator[calls]).tolist()]
    removed_calls = np.union1d(calls, context.calls_under(flat(groups)))
    count = context.per_step(len(copies))
    return Match(
        summary=f"single numbers are copied to the device: {count:.3g} a step",
        evidence={"copies_per_step": count, "bytes_each": int(device.bytes[copies].max())},
        locations=context.locations(table, calls),
        saving_s=context.saving(context.without(removed_calls, context.neighbours.spans(groups))),
        spans=device.intervals(copies),
    )


def _dependent_operators(context: Context, copying: int) -> list[int]:
    """The operators that go with the one that copies: the other parts of torch.tensor, and what is computed next
    from the number alone (torch.rsqrt of it), which Python computes where the number stays there."""
    before, after = context.neighbours.before, context.neighbours.after

    def named(row: int, name: str) -> bool:
        return row >= 0 and context.trace.name(context.trace.operators, row) == name

    group = [copying]
    if named(after[copying], "aten::lift_fresh"):
        if named(before[copying], "aten::empty"):
            group.insert(0, int(before[copying]))
        group.append(int(after[copying]))
        if named(after[group[-1]], "aten::detach_"):
            group.append(int(after[group[-1]]))
    while (following := int(after[group[-1]])) >= 0 and _takes_one_number(context, following):
        group.append(following)
    return group


def _takes_one_number(context: Context, row: int) -> bool:
    """Whether the only tensor that goes into an operator is a single number, and kernels compute the result."""
    inputs = zip(shapes(context.trace, row), types(context.trace, row), strict=False)
    launched = context.activities_by(np.array([row]))[row]
    return [dims for dims, kind in inputs if kind in ITEM_BYTES] == [[]] and (
        len(launched) > 0 and bool(context.trace.device.kernels[launched].all())
    )
