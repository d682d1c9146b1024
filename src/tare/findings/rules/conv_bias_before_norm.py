"""A convolution adds a bias that the batch norm behind it subtracts again."""

import numpy as np

from tare.findings import Context, Location, Match, rule, spans_of
from tare.trace.counting import shapes
from tare.trace.tables import Integers


@rule(
    "conv-bias-before-norm",
    sees="A convolution with bias whose result goes straight into a batch norm.",
    remedy="Build the convolution with bias=False: the norm subtracts the mean, and its own bias does the rest.",
)
def look(context: Context) -> Match | None:
    convolutions = _biased_before_norm(context)
    if len(convolutions) == 0:
        return None
    table, device, locator = context.trace.operators, context.trace.device, context.locator
    additions = np.flatnonzero(context.under(convolutions) & context.trace.named(table, "aten::add_"))
    channels = {_bias_channels(context, row) for row in convolutions.tolist()}
    bias_operators = np.union1d(additions, _bias_gradients(context, channels))
    activities = context.activities_of(context.calls_under(bias_operators))
    count = context.per_step(len(convolutions))
    return Match(
        summary=f"convolutions add a bias that a batch norm removes: {count:.3g} a step",
        evidence={"convolutions_per_step": count, "device_s_per_step": context.device_s(activities)},
        locations=[
            Location(where=locator.of_operator(row), count=1 / context.steps, seconds=0.0) for row in convolutions
        ],
        saving_s=context.saving(context.without(np.unique(device.call[activities]))),
        spans=spans_of(device, activities),
    )


def _biased_before_norm(context: Context) -> Integers:
    """Outermost convolutions with a bias, followed by a batch norm of as many channels on the same thread."""
    table = context.trace.operators
    candidates = context.operators("aten::conv1d", "aten::conv2d", "aten::conv3d")
    rows = []
    for row in candidates[table.parent[candidates] < 0].tolist():
        channels = _bias_channels(context, row)
        following = _next_root(context, row) if channels else -1
        if following >= 0 and context.trace.name(table, following) == "aten::batch_norm":
            dims = shapes(context.trace, following)
            if dims and dims[0][1:2] == [channels]:
                rows.append(row)
    return np.array(rows, dtype=np.int64)


def _bias_channels(context: Context, row: int) -> int:
    dims = shapes(context.trace, row)
    return int(dims[2][0]) if len(dims) > 2 and len(dims[2]) == 1 else 0


def _next_root(context: Context, row: int) -> int:
    """The next outermost operator of the same thread, except casts and counters; or -1."""
    table = context.trace.operators
    for following in range(row + 1, min(row + 200, len(table))):
        if table.parent[following] < 0 and table.thread[following] == table.thread[row]:
            name = context.trace.name(table, following)
            if name not in ("aten::to", "aten::add_", "aten::add", "aten::empty"):
                return following
    return -1


def _bias_gradients(context: Context, channels: set[int]) -> Integers:
    """Sums over all but the channels within a convolution's backward: the gradients of the biases."""
    within = context.under(context.operators("aten::convolution_backward"))
    sums = np.flatnonzero(within & context.trace.named(context.trace.operators, "aten::sum"))
    rows = [row for row in sums.tolist() if (dims := shapes(context.trace, row)) and set(dims[0][1:2]) <= channels]
    return np.array(rows, dtype=np.int64)
