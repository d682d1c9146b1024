"""Attention as separate kernels: scores, scale, mask, softmax and product, each written to memory and read
again."""

import numpy as np

from tare.findings import Context, Match, flat, rule
from tare.trace.counting import shapes
from tare.trace.intervals import Integers

SOFTMAX = ("aten::softmax", "aten::_softmax", "aten::_safe_softmax")
PRODUCTS = ("aten::matmul", "aten::bmm", "aten::baddbmm", "aten::einsum")
# What may stand between the products: scaling, masks, conversions, dropout, and views.
BETWEEN = {
    "div", "div_", "mul", "mul_", "add", "add_", "sub", "masked_fill", "masked_fill_", "where", "to", "_to_copy",
    "float", "half", "type_as", "dropout", "native_dropout", "view", "reshape", "expand", "contiguous",
    "transpose", "permute", "unsqueeze", "slice", "clone", "tril", "triu", "softmax", "_softmax", "nan_to_num",
}  # fmt: skip
MOST_BETWEEN = 8
# A softmax over classes has no queries and keys.
FEWEST_DIMENSIONS = 3
LEAST_SHARE = 0.01


@rule(
    "Call torch.nn.functional.scaled_dot_product_attention (with is_causal or attn_mask, and enable_gqa for "
    "grouped heads), or attn_implementation='sdpa' in transformers."
)
def attention_by_hand(context: Context) -> Match | None:
    """Two matrix products with a softmax between them and only pointwise operators beside it; 1 % of the step or
    more."""
    trace, table, device = context.trace, context.trace.operators, context.trace.device
    found: list[list[int]] = []
    for row in np.unique(context.called[context.operators(*SOFTMAX)]).tolist():
        dims = shapes(trace, row) if row >= 0 else []
        if row < 0 or (dims and dims[0] and len(dims[0]) < FEWEST_DIMENSIONS):
            continue
        before = _towards_product(context, row, context.neighbours.before)
        after = _towards_product(context, row, context.neighbours.after)
        if before is not None and after is not None:
            found.append([*before, row, *after])
    rows = flat(found)
    if len(rows) == 0:
        return None
    calls = context.calls_under(rows)
    activities = context.activities_of(calls)
    share = context.device_share(activities)
    if share < LEAST_SHARE:
        return None
    softmaxes = np.array([next(r for r in group if trace.name(table, r) in SOFTMAX) for group in found])
    return Match(
        summary=f"attention is computed by hand {context.times(len(found))}: scores, softmax and product apart",
        evidence={"attentions_per_step": context.per_step(len(found)), "device_share": share},
        locations=context.locations(table, softmaxes),
        saving_s=context.saving(context.without(calls, table.intervals(rows))),
        # The products are kept. A fused kernel has them too, and is faster at them: it writes no scores.
        bound="at least",
        spans=device.intervals(activities),
    )


def _towards_product(context: Context, row: int, step: Integers) -> list[int] | None:
    """The operators between the softmax and the product on one side; None where there is no product."""
    trace, table = context.trace, context.trace.operators
    between: list[int] = []
    while len(between) <= MOST_BETWEEN:
        row = int(step[row])
        if row < 0:
            return None
        name = trace.name(table, row)
        if name in PRODUCTS:
            return between
        if name.removeprefix("aten::") not in BETWEEN:
            return None
        between.append(row)
    return None
