"""The iterations of a server of language models, or of a loop that generates text: by the ranges that servers
mark, or else by the shapes of embeddings and attention.

A forward pass begins with the embedding of its tokens. Each sequence has many of them in a prefill; in a decode it
has one, which attends to more keys: to the cache.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from tare.trace.counting import PRODUCTS, product, shapes
from tare.trace.intervals import Integers
from tare.trace.serving_marks import DECODE, PLAIN, PREFILL, UNKNOWN, ServedBatch, batch_of, read_mark
from tare.trace.spans import rows_by_value
from tare.trace.tables import Spans, Trace

FEWEST_MARKED = 2
# By shapes alone: a program that decodes makes several tokens.
FEWEST_DECODES = 3
MOST_TABLES = 8
SHAPES = "shapes of embeddings and attention"
EMBEDDING = "aten::embedding"
_DENSE = re.compile(r"aten::(?:_)?scaled_dot_product_\w*attention\w*(?<!backward)")
_FLASH = re.compile(r"flash_attn\w*::_?flash_attn(?:_gpu)?_(?:forward|func)|FlashAttnFunc")
_PACKED = re.compile(r"flash_attn\w*::_?flash_attn_varlen_(?:forward|func)|FlashAttnVarlenFunc")
_BACKWARD = re.compile(r"autograd::engine::evaluate_function")


class Iteration(NamedTuple):
    """From where to where the host is in it (ns), and its batch."""

    start: int
    end: int
    batch: ServedBatch


class Iterations(NamedTuple):
    """All of one thread, in order; none begins before the one before it has ended. `source` says by what they are
    known."""

    source: str
    thread: int
    iterations: list[Iteration]


def find_iterations(trace: Trace) -> Iterations | None:
    """None for a trace of something else."""
    marked = _marked(trace)
    if marked is not None and marked.source != PLAIN:
        return marked
    shaped = _by_shapes(trace)
    if marked is None or shaped is None:
        return marked or shaped
    # A range named decode may hold the whole loop.
    return max(marked, shaped, key=lambda found: len(found.iterations))


def _marked(trace: Trace) -> Iterations | None:
    """Old versions of the profiler file ranges under operators."""
    on_host = trace.annotations.take(trace.annotations.device == 0)
    for table in (on_host, trace.operators):
        marks = {code: read_mark(trace.names[code]) for code in np.unique(table.name).tolist() if code >= 0}
        by_writer: dict[str, list[int]] = {}
        for code, mark in marks.items():
            if mark is not None:
                by_writer.setdefault(mark[0], []).append(code)
        for writer in sorted(by_writer, key=lambda one: one == PLAIN):
            codes = by_writer[writer]
            rows = np.flatnonzero(np.isin(table.name, codes))
            thread, rows = max(rows_by_value(table.thread[rows]).items(), key=lambda item: len(item[1]))
            rows = np.flatnonzero(np.isin(table.name, codes) & (table.thread == thread))
            batches = {code: mark[1] for code in codes if (mark := marks[code]) is not None}
            found = list(_outermost(table, rows, batches))
            if writer == PLAIN:
                if {iteration.batch.kind for iteration in found} != {PREFILL, DECODE}:
                    continue
                shaped = _Shapes(trace, thread)
                found = [one._replace(batch=_with_counts(one, shaped)) for one in found]
            if len(found) >= FEWEST_MARKED:
                return Iterations(writer, int(thread), found)
    return None


def _outermost(table: Spans, rows: Integers, batches: dict[int, ServedBatch]) -> Iterator[Iteration]:
    reach = -1 << 62
    for row in rows.tolist():
        if (start := int(table.start[row])) >= reach:
            reach = int(table.end[row])
            yield Iteration(start, reach, batches[int(table.name[row])])


def _with_counts(iteration: Iteration, shaped: "_Shapes") -> ServedBatch:
    """Of a range that says no more than its kind."""
    batch = shaped.batch(iteration.start, iteration.end)
    return batch if batch.kind == iteration.batch.kind else iteration.batch


def _by_shapes(trace: Trace) -> Iterations | None:
    operators = trace.operators
    embeddings = np.flatnonzero(trace.named(operators, EMBEDDING))
    if len(embeddings) < FEWEST_DECODES or trace.matching(operators, _BACKWARD.match).any():
        return None
    threads = rows_by_value(operators.thread[embeddings])
    thread = int(max(threads, key=lambda one: len(threads[one])))
    shaped = _Shapes(trace, thread)
    # Positions may have a table of their own within the layers. The one of the tokens is looked up first.
    tables: dict[tuple[int, ...], list[int]] = {}
    for row in embeddings[threads[thread]].tolist():
        tables.setdefault(tuple((shapes(trace, row) or [[]])[0]), []).append(row)
    best: list[Iteration] = []
    for rows in islice(tables.values(), MOST_TABLES):
        bounds = _bounds(trace, thread, np.array(rows))
        found = [Iteration(start, end, shaped.batch(start, end)) for start, end in bounds]
        best = max(best, found, key=_decodes)
    return Iterations(SHAPES, thread, best) if _decodes(best) >= FEWEST_DECODES else None


def _decodes(iterations: list[Iteration]) -> int:
    return sum(one.batch.kind == DECODE for one in iterations)


def _bounds(trace: Trace, thread: int, embeddings: Integers) -> list[tuple[int, int]]:
    """Where the forward passes begin and end: between two of them the host makes its longest pause after the last
    product of the first and before the embedding of the second."""
    operators = trace.operators
    tops = np.flatnonzero((operators.parent < 0) & (operators.thread == thread))
    start, end = operators.start[tops], operators.end[tops]
    computes = trace.matching(operators, lambda name: name in PRODUCTS or _is_attention(name))
    products = operators.start[computes & (operators.thread == thread)]
    if len(products) == 0:
        return []
    # Further embeddings before any product are of positions and types.
    before = np.searchsorted(products, operators.start[embeddings])
    first = embeddings[np.diff(before, prepend=-1) > 0]
    begun = np.searchsorted(start, operators.start[first], side="right") - 1
    last = (
        np.searchsorted(start, products[np.maximum(before[np.isin(embeddings, first)] - 1, 0)], side="right") - 1
    )
    if len(first) == 0 or (np.diff(begun) <= 0).any() or (last[1:] >= begun[1:]).any():
        return []
    bounds, opened = [], int(begun[0])
    for following, computed in zip(begun[1:].tolist(), last[1:].tolist(), strict=True):
        longest = computed + int((start[computed + 1 : following + 1] - end[computed:following]).argmax())
        bounds.append((int(start[opened]), int(end[longest])))
        opened = longest + 1
    bounds.append((int(start[opened]), int(end[opened:].max())))
    return bounds


def _is_attention(name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in (_DENSE, _FLASH, _PACKED))


class _Shapes:
    """The batch of a stretch of a thread, by the shapes of its first attention and its embedding."""

    def __init__(self, trace: Trace, thread: int) -> None:
        self._trace = trace
        operators, on_thread = trace.operators, trace.operators.thread == thread
        self._attention, self._embeddings, self._products = (
            np.flatnonzero(mask & on_thread)
            for mask in (
                trace.matching(operators, _is_attention),
                trace.named(operators, EMBEDDING),
                trace.named(operators, "aten::bmm"),
            )
        )

    def _inside(self, rows: Integers, start: int, end: int) -> list[int]:
        first, last = np.searchsorted(self._trace.operators.start[rows], [start, end])
        inside: list[int] = rows[first:last].tolist()
        return inside

    def batch(self, start: int, end: int) -> ServedBatch:
        for row in self._inside(self._attention, start, end):
            if (
                batch := _attending(self._trace.name(self._trace.operators, row), shapes(self._trace, row))
            ) is not None:
                return batch
        for row in self._inside(self._embeddings, start, end):
            known = shapes(self._trace, row)
            tokens = known[1] if len(known) > 1 else []
            if len(tokens) == 2 and all(tokens):
                return self._embedded(tokens[0], tokens[1], start, end)
        return ServedBatch(UNKNOWN)

    def _embedded(self, sequences: int, length: int, start: int, end: int) -> ServedBatch:
        """Attention that is written by hand: one query of each head times more keys."""
        if length > 1:
            return batch_of(sequences, 0, sequences * length)
        factors = (product(self._trace, row) for row in self._inside(self._products, start, end))
        cached = any(factor is not None and factor.m == 1 and factor.n > 1 for factor in factors)
        return batch_of(0, sequences, sequences) if cached else ServedBatch(UNKNOWN)


def _attending(name: str, known: list[list[int]]) -> ServedBatch | None:
    """None where the shapes do not tell."""
    if len(known) < 2 or not all(map(all, known[:2])):
        return None
    query, key = known[:2]
    if _PACKED.fullmatch(name):
        # The queries of all sequences one after the other, and where each begins.
        if len(query) != 3 or len(known) < 4 or len(known[3]) != 1 or known[3][0] < 2:
            return None
        sequences, tokens = known[3][0] - 1, query[0]
        return batch_of(0, sequences, tokens) if tokens == sequences else batch_of(sequences, 0, tokens)
    if len(query) != 4 or len(key) != 4:
        return None
    at = 1 if _FLASH.fullmatch(name) else 2
    sequences, queries, keys = query[0], query[at], key[at]
    if queries == 1 and keys > 1:
        return batch_of(0, sequences, sequences)
    return batch_of(sequences, 0, sequences * queries)
