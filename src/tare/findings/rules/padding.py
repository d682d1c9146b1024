"""A batch is padded to its longest sample or to a fixed length, and everything is computed for the padding too."""

import numpy as np

from tare.findings import Context, Match, rule
from tare.findings.replacing import shortened
from tare.trace.counting import shapes
from tare.trace.metadata import BatchPadding, batch_padding
from tare.trace.tables import Integers

LEAST_PADDING = 0.1
LEAST_SHARE = 0.05


@rule(
    "Batch samples of similar length (sort or bucket them, pad to the longest of a batch), or pack them into one "
    "sequence (nested tensors, flash_attn's varlen functions)."
)
def padding(context: Context) -> Match | None:
    """A tenth or more of the batch is padding, by the attention mask that tare saw or the trace states."""
    known = batch_padding(context.trace)
    if known is None or known.share < LEAST_PADDING:
        return None
    rows = _padded(context, known)
    work = context.work(rows)
    share = context.share(work)
    if share < LEAST_SHARE:
        return None
    return Match(
        summary=f"{known.share:.0%} of {known.batch} samples of {known.length} positions is padding",
        evidence={"padding_share": known.share, "share": share},
        locations=context.locations(context.trace.operators, rows),
        # Attention goes with the square of a sample's length: of it more than this is saved.
        saving_s=context.saving(shortened(context, dict.fromkeys(rows.tolist(), 1 - known.share))),
        spans=work,
    )


def _padded(context: Context, known: BatchPadding) -> Integers:
    """The operators, forward and backward, that take a tensor of all positions: outermost ones."""
    trace, table = context.trace, context.trace.operators
    rows = np.flatnonzero(context.inside(table))
    _, first, inputs = np.unique(table.inputs[rows], return_index=True, return_inverse=True)
    takes = [any(_has_positions(shape, known) for shape in shapes(trace, row)) for row in rows[first].tolist()]
    padded = np.zeros(len(table), dtype=bool)
    padded[rows] = np.array(takes, dtype=bool)[inputs.reshape(-1)]
    # -1, where there is no parent, is the last entry.
    outermost: Integers = np.flatnonzero(padded & ~np.append(padded, False)[table.parent])
    return outermost


def _has_positions(shape: list[int], known: BatchPadding) -> bool:
    """(batch, length, ...), (batch, heads, length, ...), or both in one dimension."""
    together = known.batch * known.length
    apart = len(shape) >= 2 and shape[0] == known.batch and known.length in shape[1:3]
    return apart or (together > 1 and together in shape)
