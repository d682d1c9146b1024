"""The counted steps as stacks with their time: frames, modules and operators of the host, and kernels under
them."""

from typing import NamedTuple

import numpy as np

from tare.trace.intervals import Integers
from tare.trace.names import short_name
from tare.trace.spans import NestedSpans, merge, pick, sum_by
from tare.trace.tables import Trace
from tare.trace.windows import in_counted_steps

# Longer lists are cut, the shortest stacks first.
MOST_STACKS = 100_000


class Flame(NamedTuple):
    """Stacks, outermost first, and the nanoseconds spent at the top of each. The host's are those of the
    profiled run: use them for shares."""

    host: list[tuple[tuple[str, ...], int]]
    device: list[tuple[tuple[str, ...], int]]


def flame(trace: Trace) -> Flame:
    columns, rows = merge(trace.frames, trace.operators, trace.calls)
    tree = NestedSpans(**columns)
    path, above, name = _paths(tree)
    counted = in_counted_steps(trace, tree.start)
    own = sum_by(path[counted], _self_time(tree)[counted], len(above))
    host = _stacks(trace, above, name, own)
    # Where each call is in the merged table.
    place = np.empty(len(rows), dtype=np.int64)
    place[rows] = np.arange(len(rows))
    work = trace.device
    launched = np.flatnonzero(work.call >= 0)
    at = place[work.call[launched] + len(trace.frames) + len(trace.operators)]
    launched, at = launched[counted[at]], at[counted[at]]
    kernels: dict[tuple[int, int], int] = {}
    pairs, which = np.unique(np.stack([path[at], work.name[launched]], axis=1), axis=0, return_inverse=True)
    times = sum_by(which.reshape(-1), work.duration[launched], len(pairs))
    for (stack, kernel), ns in zip(pairs.tolist(), times.tolist(), strict=True):
        kernels[stack, kernel] = ns
    longest = sorted(kernels, key=lambda pair: -kernels[pair])[:MOST_STACKS]
    device = [
        ((*_stack(trace, above, name, stack), short_name(trace.names[kernel])), kernels[stack, kernel])
        for stack, kernel in longest
        if kernels[stack, kernel]
    ]
    return Flame(host, device)


def _self_time(tree: NestedSpans) -> Integers:
    """Without what outlives its parent, which its parent has too."""
    own: Integers = np.maximum(np.minimum(tree.self_time, tree.clipped_end - tree.start), 0)
    return own


def _paths(tree: NestedSpans) -> tuple[Integers, Integers, Integers]:
    """The number of each row's stack of names; and of each stack the stack around it, or -1, and its last
    name."""
    path = np.full(len(tree), -1, dtype=np.int64)
    above: list[Integers] = []
    names: list[Integers] = []
    known = 0
    for depth in range(int(tree.depth.max(initial=-1)) + 1):
        rows = np.flatnonzero(tree.depth == depth)
        pairs = np.stack([pick(path, tree.parent[rows]), tree.name[rows]], axis=1)
        stacks, number = np.unique(pairs, axis=0, return_inverse=True)
        path[rows] = known + number.reshape(-1)
        above.append(stacks[:, 0])
        names.append(stacks[:, 1])
        known += len(stacks)
    empty = [np.empty(0, dtype=np.int64)]
    return path, np.concatenate(above or empty), np.concatenate(names or empty)


def _stacks(trace: Trace, above: Integers, name: Integers, times: Integers) -> list[tuple[tuple[str, ...], int]]:
    longest = np.argsort(-times, kind="stable")[: min(MOST_STACKS, int(np.count_nonzero(times)))]
    return [(_stack(trace, above, name, stack), int(times[stack])) for stack in longest.tolist()]


def _stack(trace: Trace, above: Integers, name: Integers, stack: int) -> tuple[str, ...]:
    names = []
    while stack >= 0:
        names.append(trace.names[int(name[stack])])
        stack = int(above[stack])
    return tuple(reversed(names))
