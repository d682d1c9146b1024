"""A convolution adds a bias that the batch norm behind it subtracts again."""

import numpy as np

from tare.findings import Context, Match, flat, rule
from tare.trace.counting import shapes

# What may stand between the convolution and the norm: casts and counters.
BETWEEN = ("aten::to", "aten::add_", "aten::add", "aten::empty")


@rule("Build the convolution with bias=False: the norm subtracts the mean, and its own bias does the rest.")
def conv_bias_before_norm(context: Context) -> Match | None:
    """A convolution with bias whose result goes straight into a batch norm."""
    trace, table, device = context.trace, context.trace.operators, context.trace.device
    candidates = context.operators("aten::conv1d", "aten::conv2d", "aten::conv3d")
    outermost = candidates[table.parent[candidates] < 0].tolist()
    channels = {row: size for row in outermost if (size := _removed_bias(context, row))}
    if not channels:
        return None
    convolutions = flat([channels])
    additions = context.under(convolutions) & trace.named(table, "aten::add_")
    # The gradient of a bias: within a convolution's backward, a sum over all but the channels.
    backward = context.under(context.operators("aten::convolution_backward"))
    sums = np.flatnonzero(backward & trace.named(table, "aten::sum")).tolist()
    gradients = [row for row in sums if (dims := shapes(trace, row)) and {*dims[0][1:2]} <= {*channels.values()}]
    activities = context.activities_of(context.calls_under(flat([np.flatnonzero(additions), gradients])))
    count = context.per_step(len(channels))
    return Match(
        summary=f"convolutions add a bias that a batch norm removes: {count:.3g} a step",
        evidence={"convolutions_per_step": count, "device_s_per_step": context.seconds(device, activities)},
        locations=[context.location(context.locator.of_row(table, row), ()) for row in channels],
        saving_s=context.saving(context.without(np.unique(device.call[activities]))),
        spans=device.intervals(activities),
    )


def _removed_bias(context: Context, row: int) -> int:
    """The channels of a convolution's bias if a batch norm of as many follows, else 0."""
    trace, neighbours = context.trace, context.neighbours
    dims = shapes(trace, row)
    if len(dims) <= 2 or len(dims[2]) != 1:
        return 0
    following = int(neighbours.after[row])
    while following >= 0 and trace.name(trace.operators, following) in BETWEEN:
        following = int(neighbours.after[following])
    if following < 0 or trace.name(trace.operators, following) != "aten::batch_norm":
        return 0
    normalised = shapes(trace, following)
    return dims[2][0] if normalised and normalised[0][1:2] == dims[2] else 0
