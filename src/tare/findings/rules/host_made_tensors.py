"""Tensors that the host makes anew in every step and copies to the device."""

import numpy as np

from tare.findings import Context, Match, rule
from tare.trace.intervals import Integers, union
from tare.trace.spans import pick
from tare.trace.tables import COPY, HOST_TO_DEVICE

# Smaller ones are single numbers (scalar-copies).
MORE_THAN_BYTES = 64
MADE = {
    "arange", "ones", "zeros", "full", "eye", "linspace", "rand", "randn", "randint", "randperm", "tril", "triu",
    "ones_like", "zeros_like", "full_like", "tril_indices", "triu_indices", "tensor",
}  # fmt: skip
# What may stand between making and copying: reshaping and comparing what was made.
BETWEEN = {
    "view", "reshape", "unsqueeze", "expand", "detach", "lift_fresh", "to", "float", "bool", "repeat",
    "masked_fill", "masked_fill_", "fill_", "mul", "add", "lt", "le", "gt", "ge", "eq",
}  # fmt: skip
MOST_BETWEEN = 6


@rule("Make it on the device (device=x.device), or once before the loop and keep it (register_buffer).")
def host_made_tensors(context: Context) -> Match | None:
    """In every step a tensor of more than 64 bytes is made on the host and copied to the device."""
    copies = host_made_copies(context)
    if len(copies) == 0:
        return None
    device, table = context.trace.device, context.trace.operators
    calls = np.unique(device.call[copies])
    roots = context.roots(context.trace.calls.operator[calls])
    making = [row for root in roots.tolist() for row in _making(context, root) or []]
    hosts = union(table.intervals(roots), table.intervals(np.array(making, dtype=np.int64)))
    return Match(
        summary=f"{context.times(len(copies))} a tensor is made on the host and copied to the device",
        evidence={"bytes_per_step": int(device.bytes[copies].sum()) / context.steps},
        locations=context.locations(device, copies),
        saving_s=context.saving(context.without(np.union1d(calls, context.calls_under(roots)), hosts)),
        # What remains is a kernel that makes it on the device, or nothing where it is kept.
        bound="at most",
        spans=device.intervals(copies),
    )


def host_made_copies(context: Context) -> Integers:
    """Copies of tensors that an operator has made just before, in every step."""
    device, calls = context.trace.device, context.trace.calls
    to_device = (device.kind == COPY) & (device.direction == HOST_TO_DEVICE) & (device.bytes > MORE_THAN_BYTES)
    rows = np.flatnonzero(to_device & context.launched)
    operator = calls.operator[device.call[rows]]
    roots = pick(context.root, operator)
    made = [root >= 0 and _making(context, root) is not None for root in roots.tolist()]
    chosen: Integers = rows[np.array(made, dtype=bool)]
    return chosen if len(chosen) and context.in_every_step(calls, device.call[chosen]) else chosen[:0]


def _making(context: Context, copying: int) -> list[int] | None:
    """The operators before a copy that made what it copies; None where none is directly before it."""
    trace, row = context.trace, copying
    operators: list[int] = []
    made = 0
    while len(operators) <= MOST_BETWEEN:
        row = int(context.neighbours.before[row])
        name = trace.name(trace.operators, row).removeprefix("aten::") if row >= 0 else ""
        # On the device it would launch something.
        if row < 0 or (name not in MADE and name not in BETWEEN) or context.calling[row]:
            break
        operators.append(row)
        made = len(operators) if name in MADE else made
    return operators[:made] or None
