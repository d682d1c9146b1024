"""Flow events: the arrows from launching calls to device work, for traces that have no correlation ids.

They are read in a second pass, only where they are needed: every kernel has two, and they are often missing.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from tare.trace.events import Event
from tare.trace.intervals import Integers
from tare.trace.spans import order
from tare.trace.tables import lookup

START, FINISH = "s", "f"
# Arrows of these categories do not lead to device work: forward to backward, and Perfetto's own.
OTHER_ARROWS = ("fwdbwd",)


class Flows:
    """The ends of arrows by their id: microseconds and thread."""

    def __init__(self) -> None:
        self._starts: dict[Any, tuple[float, Any]] = {}
        self._finishes: dict[Any, tuple[float, Any]] = {}

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.ph in (START, FINISH) and event.cat not in OTHER_ARROWS and event.id is not None:
                ends = self._starts if event.ph == START else self._finishes
                if isinstance(event.ts, int | float):
                    ends[event.cat, event.id] = event.ts, (event.pid, event.tid)

    def pairs(self) -> list[tuple[tuple[float, Any], tuple[float, Any]]]:
        return [(self._starts[id], finish) for id, finish in self._finishes.items() if id in self._starts]


def correlate(calls: dict[str, Integers], device: dict[str, Integers], arrows: Integers) -> None:
    """Gives calls and device work that an arrow joins a correlation id of their own, where the work has none.
    `arrows` has a row for each: start, thread, finish, thread (ns; -1 for an unknown thread)."""
    free = max(int(calls["correlation"].max(initial=0)), int(device["correlation"].max(initial=0))) + 1
    start, thread, finish, stream = arrows.T
    # The work begins where the arrow ends; the arrow begins within the call.
    work = _at(device["thread"], device["start"], stream, finish)
    by_time = order(calls["start"], calls["end"])
    call = np.full(len(arrows), -1, dtype=np.int64)
    for number in np.unique(thread).tolist():
        own = by_time[calls["thread"][by_time] == number]
        asked = np.flatnonzero(thread == number)
        if len(own):
            at = np.searchsorted(calls["start"][own], start[asked], side="right") - 1
            within = (at >= 0) & (start[asked] <= calls["end"][own[at]])
            call[asked[within]] = own[at[within]]
    joined = (work >= 0) & (call >= 0)
    joined[joined] = device["correlation"][work[joined]] <= 0
    work, call = work[joined], call[joined]
    distinct, number_of = np.unique(call, return_inverse=True)
    # A call that has a correlation id keeps it.
    own_id = calls["correlation"][distinct]
    ids = np.where(own_id > 0, own_id, free + np.arange(len(distinct)))
    for column, at, values in ((calls, distinct, ids), (device, work, ids[number_of.reshape(-1)])):
        column["correlation"] = column["correlation"].copy()
        column["correlation"][at] = values


def _at(threads: Integers, starts: Integers, thread: Integers, moment: Integers) -> Integers:
    """The row that begins on a thread at a moment, or -1."""
    _, codes = np.unique(
        np.stack([np.concatenate([threads, thread]), np.concatenate([starts, moment])], axis=1),
        axis=0,
        return_inverse=True,
    )
    codes = codes.reshape(-1).astype(np.int64)
    return lookup(codes[: len(threads)], np.arange(len(threads)), codes[len(threads) :])
