"""The gradient of an embedding is as large as its table, however few rows a batch looks up: the table is zeroed,
and the optimizer goes through all of it."""

from math import prod
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tare.findings import Context, Match, flat, rule
from tare.findings.replacing import shortened
from tare.trace.counting import ITEM_BYTES, PRODUCTS, product, shape_lists, shapes, types
from tare.trace.intervals import contains

# The position of the number of rows among the inputs. The first two are the gradient and the indices.
GRADIENTS = {"aten::embedding_dense_backward": 2, "aten::_embedding_bag_dense_backward": 5}
ZEROING = ("aten::zeros", "aten::new_zeros", "aten::zeros_like", "aten::zero_", "aten::fill_")
# If more rows than this share are looked up, a sparse gradient is no gain. Small tables, as of positions, are not
# worth a second optimizer.
MOST_TOUCHED, LEAST_BYTES = 0.25, 4 << 20
_OPTIMIZER = r"^Optimizer\.(?:step|zero_grad)#"
# Operators that go over the tensors of all parameters.
_JOINT = r"^aten::_(?:foreach|fused|amp_foreach)_"


class Table(NamedTuple):
    """The shape of an embedding's weight."""

    rows: int
    features: int


@rule(
    "Give the embedding sparse=True and its parameters an optimizer for it (SparseAdam, SGD, Adagrad), or use a "
    "library that updates rows (FBGEMM, torchrec)."
)
def dense_embedding_gradients(context: Context) -> Match | None:
    """The gradient of an embedding is a whole table, of which at most a quarter of the rows was looked up."""
    table = context.trace.operators
    gradients = context.operators(*GRADIENTS)
    touched: dict[Table, list[float]] = {}
    for row in gradients.tolist():
        if known := _looked_up(context, row):
            touched.setdefault(known[0], []).append(known[1])
    kinds = types(context.trace, int(gradients[0])) if len(gradients) else []
    item = next((ITEM_BYTES[kind] for kind in kinds if kind in ITEM_BYTES), 4)
    # A table that is multiplied as well, as in a language model with tied weights, has a dense gradient anyway.
    shares = {
        key: share
        for key, each in touched.items()
        if (share := float(np.mean(each))) <= MOST_TOUCHED
        and item * prod(key) >= LEAST_BYTES
        and not _is_factor(context, key)
    }
    large = [row for row in gradients.tolist() if (known := _looked_up(context, row)) and known[0] in shares]
    if not large:
        return None
    factors = _zeroing(context, large, shares) | _optimizer(context, shares)
    rows = np.array(sorted(factors), dtype=np.int64)
    return Match(
        summary=f"{len(shares)} embeddings have gradients as large as their tables, of which "
        f"{max(shares.values()):.2g} is looked up",
        evidence={
            "bytes_of_tables": item * sum(map(prod, shares)),
            "looked_up_share": max(shares.values()),
            "gradients_per_step": context.per_step(len(large)),
        },
        locations=context.locations(table, np.array(large)),
        saving_s=context.saving(shortened(context, factors)),
        spans=context.work(flat([rows, large])),
    )


def _looked_up(context: Context, row: int) -> tuple[Table, float] | None:
    """The table of an embedding's gradient, and the share of its rows that the batch looked up, at most."""
    trace, dims = context.trace, shapes(context.trace, row)
    text = trace.inputs_of(row).concrete
    values: Any = msgspec.json.decode(text) if text else []
    at = GRADIENTS[trace.name(trace.operators, row)]
    count = str(values[at]) if isinstance(values, list) and len(values) > at else ""
    if len(dims) < 2 or not dims[0] or not count.isdecimal() or not 0 < int(count) < 2**40:
        return None
    return Table(int(count), dims[0][-1]), min(prod(dims[1]) / int(count), 1.0)


def _is_factor(context: Context, table: Table) -> bool:
    """Whether a matrix product has the table as a factor, or its gradient as the result."""
    every = (product(context.trace, row) for row in context.operators(*PRODUCTS).tolist())
    return any({one.n, other} == {*table} for one in every if one for other in (one.k, one.m))


def _zeroing(context: Context, gradients: list[int], shares: dict[Table, float]) -> dict[int, float]:
    """What is left of the zeroing of each table."""
    table = context.trace.operators
    zeroing = context.operators(*ZEROING)
    zeroing = zeroing[np.isin(table.parent[zeroing], gradients)]
    left = {row: shares[known[0]] for row in gradients if (known := _looked_up(context, row))}
    return {row: left[int(table.parent[row])] for row in zeroing.tolist()}


def _optimizer(context: Context, shares: dict[Table, float]) -> dict[int, float]:
    """What is left of the operators that go over parameters and gradients: in the optimizer, and before it where
    gradients are clipped or scaled."""
    trace, table = context.trace, context.trace.operators
    factors: dict[int, float] = {}
    for row in np.intersect1d(context.matching(table, _JOINT), context.program).tolist():
        tensors = next(iter(shape_lists(trace, row)), [])
        # Long lists are not recorded.
        sizes = sum(map(prod, tensors)) if tensors else _parameters(context)
        counts = {key: tensors.count([*key]) if tensors else 1 for key in shares}
        if sizes and any(counts.values()):
            unneeded = sum(counts[key] * prod(key) * (1 - share) for key, share in shares.items())
            factors[row] = max(1 - unneeded / sizes, 0.0)
    within = context.program[contains(context.marked(_OPTIMIZER), table.start[context.program])]
    for row in within.tolist():
        first = next(iter(shapes(trace, row)), [])
        if len(first) == 2 and row not in factors and (key := Table(*first)) in shares:
            factors[row] = shares[key]
    return factors


def _parameters(context: Context) -> float:
    """The elements of all parameters that get a gradient in a step."""
    rows = context.operators("torch::autograd::AccumulateGrad")
    return sum(prod(next(iter(shapes(context.trace, row)), [0])) for row in rows.tolist()) / context.steps
