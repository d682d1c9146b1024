"""Norms, activations, losses and rotary embeddings as chains of pointwise operators: each of them reads its tensor
from memory and writes it again, where one operator reads and writes once."""

import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from tare.findings import Context, Match, flat, rule
from tare.findings.replacing import durations, in_one, work_of_each
from tare.findings.sequences import words
from tare.trace.counting import ITEM_BYTES, bytes_touched, shapes, types

LEAST_SHARE = 0.01


class Fused(NamedTuple):
    """How often the fused operator reads or writes a tensor of the size of its input: forward, and backward."""

    forward: int
    backward: int


REDUCING = ("aten::mean", "aten::var", "aten::std", "aten::var_mean", "aten::sum")
# What applies a root or a sum to the whole tensor takes at least this part of what made it.
LEAST_AFTER = 0.25
_SQUARE, _ROOT = "(?:pow|square|mul)", "(?:rsqrt|sqrt reciprocal|sqrt|pow)"
# The mean of squares or a variance, a root of it, and what is divided by it or multiplied.
NORM = words(
    rf"(?:mean )?(?:sub )?(?:(?:{_SQUARE} mean|var|var_mean) (?:(?:sub|mul|add|clamp|clamp_min) ){{0,4}}{_ROOT}"
    r"(?: sub)? (?:mul|div)|std (?:(?:sub|mul|add) ){0,4}div)(?: mul)?(?: add)?"
)
# GELU with tanh of a polynomial or with erf; Mish.
ACTIVATION = words(
    r"(?:(?:mul|pow|square|add|div) ){3,7}tanh add mul(?: mul)?|(?:mul )?(?:div|mul) erf add mul(?: mul)?"
    r"|softplus tanh mul|exp add log tanh mul|exp log1p tanh mul"
)
# x * sigmoid(x) looks like any gate: only a name tells.
SILU = words(r"sigmoid mul")
_SILU_NAME = re.compile(r"silu|swish|swiglu", re.IGNORECASE)
# Softmax, its logarithm and the sum under a logarithm from pieces, and cross entropy with one-hot targets.
LOSS = words(
    r"softmax (?:clamp |clamp_min |add )?log(?: gather| mul| neg)*"
    r"|(?:(?:max|amax) sub )?exp sum (?:log|div)(?: (?:log|add|sub|gather|neg))*"
    r"|one_hot log_softmax (?:neg )?mul sum|log_softmax one_hot (?:neg )?mul sum"
)
# x * cos + rotated(x) * sin, the halves of x swapped; or the halves apart, put together at the end.
ROTARY = words(
    r"mul neg (?:cat|stack) mul add|neg (?:cat|stack) mul mul add"
    r"|mul mul (?:sub|neg add) mul mul add (?:cat|stack)"
)


@rule("Call torch.nn.functional.layer_norm, rms_norm or group_norm, or compile the module: each is one kernel.")
def norm_by_hand(context: Context) -> Match | None:
    """Norms of which mean, variance, root and product are operators of their own, 1 % of the step or more."""
    chains = _applying_what_they_reduce(context, context.sequences.find(NORM))
    # The gradients of weight and bias read input and gradient again, of which the cache has a part.
    return _match(context, chains, Fused(2, 4), "norms are")


@rule(
    "Call torch.nn.functional.gelu (approximate='tanh' for the polynomial), silu or mish, or compile the module: "
    "each is one kernel."
)
def activation_by_hand(context: Context) -> Match | None:
    """GELU, Mish or SiLU (this where a name says so) in pieces: powers, erf, tanh, products; 1 % of the step."""
    named = [
        chain
        for chain in context.sequences.find(SILU)
        if _SILU_NAME.search(context.locator.of_row(context.trace.operators, chain[0]))
    ]
    return _match(context, context.sequences.find(ACTIVATION) + named, Fused(2, 3), "activations are")


@rule(
    "Call torch.nn.functional.cross_entropy on logits and class numbers (log_softmax or logsumexp for its parts): "
    "it is faster, and does not overflow."
)
def loss_by_hand(context: Context) -> Match | None:
    """Softmax, its logarithm or cross entropy in pieces: exp, sum, log, one-hot; 1 % of the step or more."""
    chains = context.sequences.find(LOSS)
    dividing = [chain for chain in chains if _named(context, chain, "aten::div")]
    others = [chain for chain in chains if not _named(context, chain, "aten::div")]
    return _match(context, others + _applying_what_they_reduce(context, dividing), Fused(2, 4), "losses are")


@rule(
    "Compile the function that rotates (torch.compile), or use a kernel for it (flash_attn's apply_rotary_emb, "
    "Liger's); in float32 a product of complex numbers (torch.view_as_complex) is one kernel too."
)
def rotary_by_hand(context: Context) -> Match | None:
    """Rotary embeddings as products, a negation, a concatenation and a sum, 1 % of the step or more."""
    return _match(context, context.sequences.find(ROTARY), Fused(2, 2), "rotary embeddings are")


def _match(context: Context, chains: list[list[int]], fused: Fused, subject: str) -> Match | None:
    if not chains:
        return None
    backward = context.backward(chains)
    every = flat([*chains, *backward])
    work = context.work(every)
    share = context.share(work)
    if share < LEAST_SHARE:
        return None
    times = durations(context, every)
    rate = _rate(context, chains, times)
    groups = []
    for chain, behind in zip(chains, backward, strict=True):
        size = _size(context, chain)
        for rows, passes in ((chain, fused.forward), (behind.tolist(), fused.backward)):
            # Nothing is shorter than an empty kernel.
            taken = [times[row] for row in rows if times[row]] or [0]
            groups.append((rows, max(size * passes / rate * 1e9, min(taken)) if size and rate else max(taken)))
    locator, table = context.locator, context.trace.operators
    count = context.per_step(len(chains))
    kernels = sum(1 for chain in chains for row in chain if times[row]) / len(chains)
    return Match(
        summary=f"{subject} computed by hand {context.times(len(chains))}, in {kernels:.3g} operators each",
        evidence={"chains_per_step": count, "operators_each": kernels, "share": share, "bytes_per_s": rate},
        locations=[
            context.location(locator.of_row(table, chain[0]), spans)
            for chain, spans in zip(chains, work_of_each(context, chains), strict=True)
        ],
        saving_s=context.saving(in_one(context, groups)),
        # Without shapes the longest operator stays, which moves at least as much as the fused one. On a CPU the
        # bytes alone do not tell how long that takes.
        bound="at most" if not context.trace.has_device else "" if rate else "at least",
        spans=work,
    )


def _applying_what_they_reduce(context: Context, chains: list[list[int]]) -> list[list[int]]:
    """The chains in which something behind the first reduction takes the whole tensor again: a norm does, the root
    of a mean squared error does not. Without shapes the times tell."""
    elements = {row: _largest(context, row)[0] for chain in chains for row in chain}
    times = durations(context, flat(chains)) if chains and max(elements.values()) <= 1 else {}
    weights, least = (times, LEAST_AFTER) if times else (elements, 1.0)
    applying = []
    for chain in chains:
        reduced = next(iter(_named(context, chain, *REDUCING)), chain[-1])
        before, after = ([weights[row] for row in chain if (row > reduced) == behind] for behind in (False, True))
        if max(after, default=-1) >= least * max(before):
            applying.append(chain)
    return applying


def _named(context: Context, chain: Sequence[int], *names: str) -> list[int]:
    return [row for row in chain if context.trace.name(context.trace.operators, row) in names]


def _size(context: Context, chain: Sequence[int]) -> int:
    """Bytes of the largest tensor of a chain, in the type in which it comes; 0 without shapes."""
    return max((_largest(context, row) for row in chain), key=lambda largest: largest[0])[1]


def _largest(context: Context, row: int) -> tuple[int, int]:
    """Elements and bytes of the largest tensor that an operator takes; 0 without shapes."""
    inputs = zip(shapes(context.trace, row), types(context.trace, row), strict=False)
    sizes = [(prod(dims), prod(dims) * ITEM_BYTES[kind]) for dims, kind in inputs if kind in ITEM_BYTES]
    return max(sizes, default=(0, 0))


def _rate(context: Context, chains: Iterable[Sequence[int]], times: Mapping[int, int]) -> float | None:
    """Bytes per second of a fused operator: those of the quickest of its parts, or the measured peak."""
    rates = [context.rates.get("bandwidth", 0.0)]
    for row in (row for chain in chains for row in chain if times[row]):
        rates.append((bytes_touched(context.trace, row) or 0) / times[row] * 1e9)
    return max(rates) or None
