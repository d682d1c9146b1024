"""What stands around an operator on its thread: its neighbours, and the host's way to it.

An operator that is no longer called takes more with it than its own time: the way from Python to it and back.
Between three operators there are two ways, between the two that are left there is one: with each operator that
goes, one way goes.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tare.trace.tables import Integers, Trace

# So many operators at most lie within one that is a neighbour's neighbour.
_FARTHEST = 400


class Around:
    """Neighbours are operators with the same operator around them (or none), on the same thread."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._edges: dict[int, Integers] = {}

    def before(self, row: int) -> int:
        """The neighbour that ran before this operator, or -1."""
        return self._neighbour(row, range(row - 1, max(row - _FARTHEST, 0) - 1, -1))

    def after(self, row: int) -> int:
        """The neighbour that ran after this operator, or -1."""
        return self._neighbour(row, range(row + 1, min(row + _FARTHEST, len(self._trace.operators))))

    def spans(self, groups: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
        """Host time that goes with neighbours that go together: from the first to the last, and one way."""
        return sorted(self._span(group) for group in groups if group)

    def _span(self, group: Sequence[int]) -> tuple[int, int]:
        table = self._trace.operators
        first, last = min(group), max(group)
        start, end = int(table.start[first]), int(table.end[last])
        edges = self._edges_of(int(table.thread[first]))
        left = int(edges[max(int(np.searchsorted(edges, start)) - 1, 0)])
        right = int(edges[min(int(np.searchsorted(edges, end, side="right")), len(edges) - 1)])
        # What is longer than usual is not the way to an operator, but work of the program's own.
        way = min(max(start - left, 0), max(right - end, 0), self._usual)
        return start - way, end

    def _neighbour(self, row: int, candidates: range) -> int:
        table = self._trace.operators
        parent, thread = table.parent[row], table.thread[row]
        for other in candidates:
            if table.parent[other] == parent and table.thread[other] == thread:
                return other
        return -1

    def _edges_of(self, thread: int) -> Integers:
        """All moments at which something begins or ends on a thread: operators, calls, marks, steps."""
        if thread not in self._edges:
            trace = self._trace
            moments = [trace.steps.start, trace.steps.end]
            for table in (trace.operators, trace.calls, trace.annotations):
                mine = table.thread == thread
                moments += [table.start[mine], table.end[mine]]
            self._edges[thread] = np.unique(np.concatenate(moments))
        return self._edges[thread]

    @cached_property
    def _usual(self) -> int:
        """The median way from an outermost operator to the next one on its thread."""
        table = self._trace.operators
        ways = []
        for thread in np.unique(table.thread[table.depth == 0]).tolist():
            rows = np.flatnonzero((table.depth == 0) & (table.thread == thread))
            found = table.start[rows[1:]] - table.end[rows[:-1]]
            ways.append(found[found >= 0])
        joined = np.concatenate(ways) if ways else np.zeros(0)
        return int(np.median(joined)) if len(joined) else 0
