"""Attention as separate kernels: scores, scale, mask, softmax and product, each written to memory and read again;
for all heads at once, or head by head in a Python loop."""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tare.findings import Context, Match, flat, rule
from tare.findings.replacing import durations, in_one
from tare.findings.rules.split_convolution import RATES
from tare.trace.counting import PRODUCTS as KERNEL_PRODUCTS
from tare.trace.counting import Product, product, shapes
from tare.trace.intervals import Integers

SOFTMAX = ("aten::softmax", "aten::_softmax", "aten::_safe_softmax")
PRODUCTS = ("aten::matmul", "aten::bmm", "aten::baddbmm", "aten::einsum")
VIEWS = {
    "view", "reshape", "expand", "contiguous", "transpose", "permute", "unsqueeze", "squeeze", "slice", "select",
    "clone", "chunk", "split", "unbind", "narrow", "t", "numpy_T",
}  # fmt: skip
# What may stand between the products: scaling, masks and their making, conversions, dropout, and views.
BETWEEN = VIEWS | {
    "div", "div_", "mul", "mul_", "add", "add_", "sub", "masked_fill", "masked_fill_", "where", "to", "_to_copy",
    "float", "half", "type_as", "dropout", "native_dropout", "tril", "triu", "softmax", "_softmax", "nan_to_num",
    "eq", "ne", "lt", "le", "gt", "ge", "logical_not", "bitwise_not", "ones",
}  # fmt: skip
# The projection of the values may come between softmax and product. It stays.
PROJECTIONS = {"linear"}
MOST_BETWEEN = 10
# A softmax over classes has no queries and keys.
FEWEST_DIMENSIONS = 3
LEAST_SHARE = 0.01
# A loop has so many heads. From one to the next there are only views, projections and the storing of a result, and
# the results are put together.
FEWEST_HEADS = 4
FROM_HEAD_TO_HEAD = VIEWS | PROJECTIONS | {"to", "copy_"}
MOST_FROM_HEAD_TO_HEAD = 40
JOINING = {"cat", "concat", "stack", "copy_"}
# The backward pass of attention has five products where the forward pass has two.
BACKWARD = 2.5


class Attention(NamedTuple):
    """The rows of the softmax and of the two products, and what a fused operator has no need of: the softmax and
    the operators between it and the products."""

    softmax: int
    products: tuple[int, int]
    between: list[int]


@rule(
    "Call torch.nn.functional.scaled_dot_product_attention (with is_causal or attn_mask, and enable_gqa for "
    "grouped heads), or attn_implementation='sdpa' in transformers."
)
def attention_by_hand(context: Context) -> Match | None:
    """Two matrix products with a softmax between them and only pointwise operators beside it; 1 % of the step or
    more."""
    attentions = _attentions(context)
    in_loops = {head.softmax for loop in _loops(context, attentions) for head in loop}
    # Without shapes every softmax between two products is taken for one of queries and keys.
    found = [
        one
        for one in attentions
        if one.softmax not in in_loops and not (0 < len(_dimensions(context, one.softmax)) < FEWEST_DIMENSIONS)
    ]
    if not found:
        return None
    between = [one.between for one in found]
    rows = flat([*between, *context.backward(between)])
    work = context.work(rows)
    share = context.share(work)
    if share < LEAST_SHARE:
        return None
    table = context.trace.operators
    return Match(
        summary=f"attention is computed by hand {context.times(len(found))}: scores, softmax and product apart",
        evidence={"attentions_per_step": context.per_step(len(found)), "share": share},
        locations=context.locations(table, np.array([one.softmax for one in found])),
        saving_s=context.saving(context.without(context.calls_under(rows), table.intervals(rows))),
        # The products are kept. A fused kernel has them too, and is faster at them: it writes no scores.
        bound="at least" if context.trace.has_device else "",
        spans=work,
    )


@rule(
    "Compute all heads (or all samples) at once: one projection, a view as (batch, heads, length, features), and "
    "torch.nn.functional.scaled_dot_product_attention."
)
def attention_in_a_loop(context: Context) -> Match | None:
    """4 or more equal attentions one after the other whose results are put together, as by a Python loop over
    heads or samples; 1 % of the step or more."""
    table = context.trace.operators
    loops = _loops(context, _attentions(context))
    if not loops:
        return None
    groups = [_rows_of_loop(context, loop) for loop in loops]
    backward = context.backward(groups)
    rows = flat([*groups, *backward])
    work = context.work(rows)
    share = context.share(work)
    if share < LEAST_SHARE:
        return None
    times = durations(context, flat(groups))
    needed = _needed_ns(context, loops, times)
    left = [
        # Without a rate all products stay.
        (one, passes * (ns or sum(times[row] for head in loop for row in head.products)))
        for loop, ns, forward, behind in zip(loops, needed, groups, backward, strict=True)
        for one, passes in ((forward, 1.0), (behind.tolist(), BACKWARD))
    ]
    heads = sum(map(len, loops)) / len(loops)
    return Match(
        summary=f"attention runs in a Python loop {context.times(len(loops))}: {heads:.3g} softmaxes one by one",
        evidence={"loops_per_step": context.per_step(len(loops)), "softmaxes_per_loop": heads, "share": share},
        locations=context.locations(table, np.array([loop[0].softmax for loop in loops])),
        saving_s=context.saving(in_one(context, left)),
        # How long the fused operator takes on a CPU is not known.
        bound="at most" if not context.trace.has_device else "" if all(needed) else "at least",
        spans=work,
    )


def _attentions(context: Context) -> list[Attention]:
    trace, table = context.trace, context.trace.operators
    called = np.unique(context.called[context.operators(*SOFTMAX)])
    attentions = []
    # The softmax within a fused operator is not called by the program.
    for row in called[(called >= 0) & trace.named(table, *SOFTMAX)[called]].tolist():
        before = _towards_product(context, row, context.neighbours.before, BETWEEN)
        after = _towards_product(context, row, context.neighbours.after, BETWEEN | PROJECTIONS)
        if before is not None and after is not None:
            between = [*before[:0:-1], row, *after[1:]]
            projections = [one for one in between if _word(context, one) in PROJECTIONS]
            attentions.append(
                Attention(row, (before[0], after[0]), [one for one in between if one not in projections])
            )
    return attentions


def _towards_product(context: Context, row: int, step: Integers, allowed: set[str]) -> list[int] | None:
    """The product on one side of the softmax, and the operators between; None where there is no product."""
    between: list[int] = []
    while len(between) <= MOST_BETWEEN:
        row = int(step[row])
        if row < 0:
            return None
        if context.trace.name(context.trace.operators, row) in PRODUCTS:
            return [row, *between]
        if _word(context, row) not in allowed:
            return None
        between.append(row)
    return None


def _loops(context: Context, attentions: list[Attention]) -> list[list[Attention]]:
    """Runs of equal attentions that follow each other directly, and whose results are put together."""
    loops: list[list[Attention]] = [[]]
    joined: list[bool] = [False]
    for head, following in pairwise([*attentions, None]):
        assert head is not None
        loops[-1].append(head)
        between, end = _from_head_to_head(context, head)
        joined[-1] |= "copy_" in between
        dims = _dimensions(context, head.softmax)
        if following is None or end != following.products[0] or dims != _dimensions(context, following.softmax):
            joined[-1] |= end >= 0 and _word(context, end) in JOINING
            loops.append([])
            joined.append(False)
    return [loop for loop, is_joined in zip(loops, joined, strict=True) if len(loop) >= FEWEST_HEADS and is_joined]


def _from_head_to_head(context: Context, head: Attention) -> tuple[set[str], int]:
    """What follows an attention, and where something else does: the next attention's product, if it is one."""
    row, between = head.products[1], set[str]()
    for _ in range(MOST_FROM_HEAD_TO_HEAD):
        row = int(context.neighbours.after[row])
        if row < 0 or _word(context, row) not in FROM_HEAD_TO_HEAD:
            break
        between.add(_word(context, row))
    return between, row


def _rows_of_loop(context: Context, loop: list[Attention]) -> list[int]:
    """All operators from the first product to the last, without projections."""
    rows = [loop[0].products[0]]
    while rows[-1] != loop[-1].products[1]:
        rows.append(int(context.neighbours.after[rows[-1]]))
    return [row for row in rows if _word(context, row) not in PROJECTIONS]


def _needed_ns(context: Context, loops: list[list[Attention]], times: Mapping[int, int]) -> list[float]:
    """What all heads of each loop take at once: their operations at the peak rate, or as long as one head alone,
    which does not fill a device. 0 where the rate is not known."""
    trace, first = context.trace, flat(loop[0].products for loop in loops)
    owners = context.owners(first)
    rows = np.flatnonzero((owners >= 0) & trace.named(trace.operators, *KERNEL_PRODUCTS))
    multiplied: dict[int, list[Product]] = {row: [] for row in first.tolist()}
    for row, owner in zip(rows.tolist(), owners[rows].tolist(), strict=True):
        if shape := product(trace, row):
            multiplied[owner].append(shape)
    needed = []
    for loop in loops:
        one = [shape for row in loop[0].products for shape in multiplied[row]]
        rate = context.rates.get(RATES.get(one[0].type, "")) if one else None
        flops = len(loop) * sum(shape.flops for shape in one)
        alone = sum(times[row] for row in (*loop[0].between, *loop[0].products))
        needed.append(max(flops / rate * 1e9, alone) if rate else 0.0)
    return needed


def _dimensions(context: Context, row: int) -> list[int]:
    return next(iter(shapes(context.trace, row)), [])


def _word(context: Context, row: int) -> str:
    return context.trace.name(context.trace.operators, row).removeprefix("aten::")
