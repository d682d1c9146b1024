"""Time, launches and memory of the counted steps by module, as a tree of the modules that call each other.

The profiler records a module's forward as a Python frame (with_stack=True). A backward operator belongs to the
module of its forward operator. What is in no module belongs to the root, so that the figures of the root are
those of the steps, and those of a module are its own plus those of its children, exactly.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tare.trace.intervals import Integers, Mask
from tare.trace.memory import held_memory
from tare.trace.names import MODULE_PREFIX
from tare.trace.spans import NestedSpans, merge, pick, rows_by_value, sum_by
from tare.trace.tables import Trace
from tare.trace.windows import counted_work, in_counted_steps

ROOT = 0
# What is deeper counts in the module at this depth, and modules beyond this number in their parents: a document of
# deeper lists cannot be encoded.
DEEPEST, MOST_MODULES = 100, 20_000
# The forward operator may lie in a backward pass itself, where activations are computed again.
MOST_PASSES = 3


class ModuleFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Of all counted steps, in ns: the host's time in the profiled run, and the time of the kernels, copies and
    memsets that were launched, each by itself. In bytes, of the whole trace: what is held when the program holds
    most, and what is allocated and never released. The root has what the trace did not see being allocated."""

    host: int
    device: int
    launches: int
    peak_bytes: int
    kept_bytes: int


class ModuleNode(msgspec.Struct, frozen=True, kw_only=True):
    """A module as it is called from the one above: `total` is `own` and the totals of the children, which are in
    the order of their first calls."""

    name: str
    calls: int
    own: ModuleFigures
    total: ModuleFigures
    children: list["ModuleNode"]


def module_tree(trace: Trace) -> ModuleNode | None:
    """The root, which has no name and is called once a step; None for a trace without modules."""
    is_module = np.equal(trace.frames.module, np.arange(len(trace.frames)))
    if not is_module.any():
        return None
    modules = trace.frames.take(is_module)
    columns, rows = merge(modules, trace.operators, trace.calls)
    tree, operators, calls = NestedSpans(**columns), len(modules), len(modules) + len(trace.operators)
    # Where each row of the three tables is in the merged one.
    place = np.empty(len(rows), dtype=np.int64)
    place[rows] = np.arange(len(rows))
    nodes = _Nodes()
    node = nodes.assign(tree, rows < operators, np.full(len(tree), -1))
    forward, above = trace.forward_operator, trace.operators.parent
    # What is within a backward operator is where that is, unless it calls modules again.
    backward = np.flatnonzero((forward >= 0) & (pick(forward, above) != forward))
    for _ in range(MOST_PASSES if len(backward) else 0):
        given = np.full(len(tree), -1)
        given[place[operators + backward]] = node[place[operators + forward[backward]]]
        before, node = node, nodes.assign(tree, rows < operators, given)
        if np.array_equal(before, node):
            break
    count = len(nodes.parent)
    counted = in_counted_steps(trace, tree.start)
    work = counted_work(trace)
    launched = trace.device.call[work]
    owner = np.where(launched >= 0, node[place[np.maximum(launched, 0) + calls]], ROOT)
    launches = place[np.flatnonzero(trace.calls.launches) + calls]
    own = np.stack(
        [
            _host_time(trace, tree, node, rows >= operators, count),
            sum_by(owner, trace.device.duration[work], count),
            np.bincount(node[launches[counted[launches]]], minlength=count),
            *_memory(trace, tree, node, count),
        ],
        axis=1,
    )
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, node[rows < operators], tree.start[rows < operators])
    called = np.bincount(node[(rows < operators) & counted], minlength=count)
    called[ROOT] = trace.steps.counted.sum()
    return nodes.tree(trace.names, own, called, first)


class _Nodes:
    """The modules by the path of calls that leads to them. A node comes after its parent."""

    def __init__(self) -> None:
        self.parent, self.name, self.depth = [-1], [-1], [0]
        self._numbers: dict[tuple[int, int], int] = {}

    def assign(self, tree: NestedSpans, is_module: Mask, given: Integers) -> Integers:
        """The node of each row: of a module its own; else the one that is given, or that of the row around it."""
        node = np.full(len(tree), ROOT)
        for rows in rows_by_value(tree.depth).values():
            above = np.where(given[rows] >= 0, given[rows], np.maximum(pick(node, tree.parent[rows]), ROOT))
            inner = is_module[rows]
            pairs, which = np.unique(np.stack([above[inner], tree.name[rows[inner]]]), axis=1, return_inverse=True)
            numbers = np.array([self._number(parent, name) for parent, name in pairs.T.tolist()], dtype=np.int64)
            above[inner] = numbers[which.reshape(-1)]
            node[rows] = above
        return node

    def _number(self, parent: int, name: int) -> int:
        known = self._numbers.get((parent, name))
        if known is not None:
            return known
        around = parent
        while around > ROOT and self.name[around] != name:
            around = self.parent[around]
        if around > ROOT:
            # Activation checkpointing calls it again from the backward pass of a module within it.
            return self._numbers.setdefault((parent, name), around)
        if self.depth[parent] >= DEEPEST or len(self.parent) > MOST_MODULES:
            return parent
        self.parent.append(parent)
        self.name.append(name)
        self.depth.append(self.depth[parent] + 1)
        return self._numbers.setdefault((parent, name), len(self.parent) - 1)

    def tree(self, names: Sequence[str], own: Integers, calls: Integers, first: Integers) -> ModuleNode:
        """Without modules that have no figures, such as those of a first pass that belong elsewhere."""
        total = own.copy()
        children: list[list[ModuleNode]] = [[] for _ in self.parent]
        order = np.argsort(first, kind="stable").argsort(kind="stable").tolist()
        positions: list[list[int]] = [[] for _ in self.parent]
        for number in range(len(self.parent) - 1, -1, -1):
            parent = self.parent[number]
            ranked = sorted(zip(positions[number], children[number], strict=True), key=lambda pair: pair[0])
            name = names[self.name[number]].removeprefix(MODULE_PREFIX) if parent >= 0 else ""
            figures = [
                ModuleFigures(**dict(zip(ModuleFigures.__struct_fields__, values[number].tolist(), strict=True)))
                for values in (own, total)
            ]
            made = ModuleNode(
                name=name,
                calls=int(calls[number]),
                own=figures[0],
                total=figures[1],
                children=[child for _, child in ranked],
            )
            if parent < 0:
                return made
            total[parent] += total[number]
            if made.calls or total[number].any():
                positions[parent].append(order[number])
                children[parent].append(made)
        raise AssertionError("the root comes first")


def _host_time(trace: Trace, tree: NestedSpans, node: Integers, works: Mask, count: int) -> Integers:
    """Every nanosecond of the steps belongs to the module in which the stepping thread is. While that is in no
    module and in no operator, it may wait for another thread: in the backward pass for autograd's."""
    counted = trace.steps.counted == 1
    start, end = trace.steps.start[counted], trace.steps.end[counted]
    sums = np.zeros(count, dtype=np.int64)
    stepping = int(trace.steps.thread[0]) if len(trace.steps) else -1
    threads = sorted(tree.rows_by_thread, key=lambda thread: thread != stepping)
    for thread in threads:
        _, begin, finish, row = tree.timeline(thread).cut(start, end)
        owner = np.maximum(pick(node, row), ROOT)
        decided = (owner != ROOT) | (pick(works.astype(np.int64), row) == 1)
        sums += sum_by(owner[decided], (finish - begin)[decided], count)
        start, end = begin[~decided], finish[~decided]
    sums[ROOT] += int((end - start).sum())
    return sums


class _Memory(NamedTuple):
    peak: Integers
    kept: Integers


def _memory(trace: Trace, tree: NestedSpans, node: Integers, count: int) -> _Memory:
    held = held_memory(trace)
    if held is None:
        return _Memory(np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64))
    owner = np.maximum(pick(node, tree.innermost(held.thread, held.start)), ROOT)
    peak, kept = (sum_by(owner[rows], held.bytes[rows], count) for rows in (held.at_peak, held.kept))
    peak[ROOT] += held.peak_bytes - int(peak.sum())
    return _Memory(peak, kept)
