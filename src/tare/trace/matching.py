"""Collectives matched across the ranks of a job, and the clocks of the ranks aligned by them.

A collective that synchronises ends on all its ranks at the same moment, within the latency of a link: the median
difference of these ends is the difference of two clocks. It begins when its last rank begins it. Until then the
others wait; what remains is the transfer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tare.trace.collectives import SYNCHRONISING, collectives
from tare.trace.intervals import Integers
from tare.trace.tables import Trace
from tare.trace.windows import main_device, step_at

# Operation, group, bytes, and the step; equal ones are told apart by their order.
Label = tuple[str, str, int, int]


@dataclass(frozen=True)
class MatchedCollectives:
    """`start` and `end` have a row for each collective and a column for each rank, in nanoseconds of the first
    rank's clock; -1 in `row` (of Trace.device) where a rank has no part in it. Sorted by the last start."""

    row: Integers
    start: Integers
    end: Integers
    # What is added to the times of each rank, and how far its ends lie from the first rank's after that (median).
    clock: Integers
    spread: Integers
    # Collectives of one rank alone: the traces of the others do not have them.
    unmatched: int

    @cached_property
    def last(self) -> Integers:
        """The rank that began each of them last."""
        last: Integers = np.where(self.row >= 0, self.start, np.iinfo(np.int64).min).argmax(axis=1)
        return last

    @cached_property
    def last_start(self) -> Integers:
        starts: Integers = np.where(self.row >= 0, self.start, np.iinfo(np.int64).min).max(axis=1)
        return starts

    @cached_property
    def usual_start(self) -> Integers:
        """The median of the starts of all ranks but the last."""
        usual = np.zeros(len(self.row), dtype=np.int64)
        for i, (row, start, last) in enumerate(zip(self.row, self.start, self.last.tolist(), strict=True)):
            usual[i] = int(np.median(np.delete(start, last)[np.delete(row, last) >= 0]))
        return usual


def match_collectives(traces: Sequence[Trace]) -> MatchedCollectives:
    stepped = _share_steps(traces)
    labelled = [_labelled(trace, stepped) for trace in traces]
    found: dict[tuple[Label, int], dict[int, int]] = {}
    for label in dict.fromkeys(label for rank in labelled for label in rank):
        members = {rank: rows[label] for rank, rows in enumerate(labelled) if label in rows}
        shift = _shifts(traces, members)
        for rank, rows in members.items():
            for position, row in enumerate(rows):
                found.setdefault((label, position + shift[rank]), {})[rank] = row
    shared = [ranks for ranks in found.values() if len(ranks) > 1]
    table = np.full((len(shared), len(traces)), -1, dtype=np.int64)
    for i, ranks in enumerate(shared):
        table[i, list(ranks)] = list(ranks.values())
    start, end = np.zeros_like(table), np.zeros_like(table)
    for rank, trace in enumerate(traces):
        here = table[:, rank] >= 0
        start[here, rank] = trace.device.start[table[here, rank]]
        end[here, rank] = trace.device.end[table[here, rank]]
    clock, spread = _align(table, end)
    start, end = start + clock, end + clock
    order = np.argsort(np.where(table >= 0, start, np.iinfo(np.int64).min).max(axis=1), kind="stable")
    alone = sum(len(ranks) == 1 for ranks in found.values())
    return MatchedCollectives(table[order], start[order], end[order], clock, spread, alone)


def _labelled(trace: Trace, stepped: bool) -> dict[Label, list[int]]:
    """The synchronising collectives of the main device by label, in the order of their starts."""
    table, device = collectives(trace, trace.device.device == main_device(trace)), trace.device
    call = device.call[table.rows]
    moment = np.where(call >= 0, np.append(trace.calls.start, 0)[call], device.start[table.rows])
    step = step_at(trace, moment)
    number = np.append(trace.steps.number, -1)[step] if stepped else np.zeros_like(step)
    labelled: dict[Label, list[int]] = {}
    columns = zip(
        table.rows.tolist(), table.operations, table.groups, table.bytes.tolist(), number.tolist(), strict=True
    )
    for row, kind, group, size, at in columns:
        if kind in SYNCHRONISING and at >= 0:
            labelled.setdefault((kind, group, size, at), []).append(row)
    return labelled


def _share_steps(traces: Sequence[Trace]) -> bool:
    """Whether all ranks mark steps and have some of them in common."""
    # Steps that were found are numbered by each trace for itself.
    numbers = [set(trace.steps.number[trace.steps.name >= 0].tolist()) - {-1} for trace in traces]
    return bool(set.intersection(*numbers)) if numbers else False


def _shifts(traces: Sequence[Trace], members: dict[int, list[int]]) -> dict[int, int]:
    """Where ranks have different numbers of equal collectives, recordings began or ended apart: whether to count
    from the first or from the last, by the steadier difference of ends."""
    first = min(members)
    shifts = dict.fromkeys(members, 0)
    ends = {rank: traces[rank].device.end[rows] for rank, rows in members.items()}
    for rank, rows in members.items():
        difference = len(members[first]) - len(rows)
        if difference:
            candidates = {shift: _unsteadiness(ends[first], ends[rank], shift) for shift in (0, difference)}
            shifts[rank] = min(candidates, key=lambda shift: candidates[shift])
    least = min(shifts.values())
    return {rank: shift - least for rank, shift in shifts.items()}


def _unsteadiness(first: Integers, other: Integers, shift: int) -> float:
    begin, past = max(shift, 0), min(len(first), len(other) + shift)
    if past <= begin:
        return np.inf
    apart = other[begin - shift : past - shift] - first[begin:past]
    return float(np.median(np.abs(apart - np.median(apart))))


def _align(row: Integers, end: Integers) -> tuple[Integers, Integers]:
    """What to add to each rank's clock, from rank to rank that share collectives."""
    ranks = row.shape[1]
    clock, spread = np.zeros((2, ranks), dtype=np.int64)
    known = {0}
    while True:
        pairs = (
            (int(both.sum()), rank, reference)
            for rank in set(range(ranks)) - known
            for reference in known
            if (both := (row[:, rank] >= 0) & (row[:, reference] >= 0)).any()
        )
        best = max(pairs, default=None)
        if best is None:
            return clock, spread
        _, rank, reference = best
        both = (row[:, rank] >= 0) & (row[:, reference] >= 0)
        apart = end[both, reference] + clock[reference] - end[both, rank]
        clock[rank] = int(np.median(apart))
        spread[rank] = int(np.median(np.abs(apart - clock[rank])))
        known.add(rank)
