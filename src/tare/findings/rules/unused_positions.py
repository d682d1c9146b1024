"""A projection computed for every position, of whose result few positions are used: the logits of a whole prompt,
of which the last ones choose the next token."""

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tare.findings import Context, Match, flat, grouped, rule
from tare.findings.replacing import durations, shortened
from tare.trace.counting import ITEM_BYTES, shapes, types
from tare.trace.tables import Integers

PROJECTIONS = ("aten::linear", "aten::matmul", "aten::addmm", "aten::mm")
# Between the projection and the choice of positions there are only views and conversions.
CONVERTING = {"to", "_to_copy", "float"}
VIEWS = {
    "view", "reshape", "_unsafe_view", "contiguous", "clone", "detach", "alias", "unsqueeze", "squeeze",
    "transpose", "permute",
}  # fmt: skip
CHOOSING = {"select", "slice", "narrow", "index_select", "index"}
MOST_BETWEEN = 8
MOST_USED = 0.5
LEAST_SHARE = 0.01


class Use(NamedTuple):
    """The share of a projection's positions that is used, and the conversions of all of them. `result` is the
    shape of all of them."""

    share: float
    converting: list[int]
    result: tuple[int, ...]


@rule("Choose the positions before the projection: lm_head(hidden[:, -1]), or logits_to_keep=1 in transformers.")
def unused_positions(context: Context) -> Match | None:
    """A projection of which at most half of the positions are used, 1 % of the step or more."""
    rows = context.operators(*PROJECTIONS)
    candidates = {row: use for row in rows[context.called[rows] == rows].tolist() if (use := _use(context, row))}
    found = _not_used_elsewhere(context, candidates)
    if not found:
        return None
    groups = [[row, *use.converting] for row, use in found.items()]
    backward = context.backward(groups)
    work = context.work(flat([*groups, *backward]))
    share = context.share(work)
    if share < LEAST_SHARE:
        return None
    chosen = np.array(list(found), dtype=np.int64)
    bandwidth, times = context.rates.get("bandwidth"), durations(context, chosen)
    factors: dict[int, float] = {}
    for (row, use), behind in zip(found.items(), backward, strict=True):
        # For one position the whole weight is read as well.
        least = _weight_bytes(context, row) / bandwidth * 1e9 / max(times[row], 1) if bandwidth else 0.0
        factors |= dict.fromkeys([*use.converting, *behind.tolist()], use.share)
        factors[row] = min(max(use.share, least), 1.0)
    used = float(np.mean([use.share for use in found.values()]))
    return Match(
        summary=f"{context.times(len(found))} a projection is computed for all positions, of which {used:.2%} "
        "are used",
        evidence={"projections_per_step": context.per_step(len(found)), "used_share": used, "share": share},
        locations=context.locations(context.trace.operators, chosen),
        saving_s=context.saving(shortened(context, factors)),
        bound="" if bandwidth else "at most",
        spans=work,
    )


def _use(context: Context, row: int) -> Use | None:
    """None where more than MOST_USED is used, or it is not known what is."""
    factors = [shape for shape in shapes(context.trace, row) if len(shape) >= 2][:2]
    if len(factors) < 2:
        return None
    linear = context.trace.name(context.trace.operators, row) == "aten::linear"
    result = (*factors[0][:-1], factors[1][0 if linear else -1])
    left, converting, at = prod(result), [], row
    for _ in range(MOST_BETWEEN):
        at = int(context.neighbours.after[at])
        word = _word(context, at)
        first = next(iter(shapes(context.trace, at)), []) if at >= 0 else []
        if word not in VIEWS | CONVERTING | CHOOSING or (prod(first), first[-1:]) != (left, [*result[-1:]]):
            break
        if word in CHOOSING:
            kept = _kept(context, at, first)
            if kept is None:
                return None
            left = kept
        elif word in CONVERTING and left == prod(result):
            converting.append(at)
    share = left / max(prod(result), 1)
    return Use(share, converting, result) if 0 < share <= MOST_USED else None


def _kept(context: Context, row: int, first: list[int]) -> int | None:
    """How many elements an operator keeps of a tensor of this shape, None where that is not recorded. The last
    dimension has features and not positions: what is chosen there does not count."""
    trace, elements = context.trace, prod(first)
    word = _word(context, row)
    if word == "index":
        # Its indices are not recorded, but what takes the result says how many there are.
        after = int(context.neighbours.after[row])
        following = next(iter(shapes(trace, after)), []) if after >= 0 else []
        return prod(following) if following[-1:] == first[-1:] and prod(following) <= elements else None
    at, *numbers = [*_numbers(trace.inputs_of(row).concrete)[1:], None]
    if at is None or not -len(first) <= at < len(first):
        return None
    size = first[at]
    if size < 1 or (len(first) > 1 and at % len(first) == len(first) - 1):
        return elements
    if word == "select":
        kept = 1
    elif word == "slice":
        begin, end, step = (*numbers, None, None, None)[:3]
        kept = len(range(*slice(begin, end, max(step or 1, 1)).indices(size)))
    else:
        dims = shapes(trace, row)
        counted = prod(dims[2]) if word == "index_select" and len(dims) > 2 else (*numbers, None, None)[1]
        if counted is None:
            return None
        kept = min(max(counted, 0), size)
    return elements // size * kept


def _numbers(text: bytes) -> list[int | None]:
    """The integers among the values of an operator's inputs."""
    values: Any = msgspec.json.decode(text) if text else []
    texts = [str(value) for value in values] if isinstance(values, list) else []
    return [int(text) if text.lstrip("-").isdecimal() and len(text) < 20 else None for text in texts]


def _not_used_elsewhere(context: Context, candidates: Mapping[int, Use]) -> dict[int, Use]:
    """Those of whose positions nothing takes all before the next projection of the same shape: no loss, no
    softmax."""
    found = {}
    for rows in grouped(candidates, lambda row: str(candidates[row].result)).values():
        taking = _takers(context, candidates[rows[0]].result)
        for row, following in pairwise([*rows, len(context.trace.operators)]):
            if not ((taking > row) & (taking < following)).any():
                found[row] = candidates[row]
    return found


def _takers(context: Context, result: tuple[int, ...]) -> Integers:
    """The operators that compute with a tensor of this size, but those of the backward pass."""
    trace, rows = context.trace, context.program
    rows = rows[trace.forward_operator[rows] < 0]
    _, first, inputs = np.unique(trace.operators.inputs[rows], return_index=True, return_inverse=True)
    takes = [
        any(prod(shape) == prod(result) and shape[-1] == result[-1] for shape in shapes(trace, row) if shape)
        for row in rows[first].tolist()
    ]
    taking = rows[np.array(takes, dtype=bool)[inputs.reshape(-1)]].tolist()
    return np.array([row for row in taking if _word(context, row) not in VIEWS | CONVERTING | CHOOSING], np.int64)


def _weight_bytes(context: Context, row: int) -> int:
    factors = [shape for shape in shapes(context.trace, row) if len(shape) >= 2][:2]
    item = next((ITEM_BYTES[kind] for kind in types(context.trace, row) if kind in ITEM_BYTES), 4)
    return prod(factors[1]) * item


def _word(context: Context, row: int) -> str:
    return context.trace.name(context.trace.operators, row).removeprefix("aten::") if row >= 0 else ""
