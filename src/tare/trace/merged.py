"""Ranks merged into one file: whose launches, operators and kernels are whose.

The host's events have the process in them. A kernel has its device only, and correlation ids of two processes
may be equal. A device belongs to the process that alone can have launched its work: its calls come before.
Where several can have, the order of the events in the file decides, since files are merged one after the other.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tare.trace.intervals import Integers, Mask, distinct
from tare.trace.spans import rows_by_value
from tare.trace.tables import lookup

Columns = dict[str, Integers]


def split_processes(
    tables: Mapping[str, Columns], processes: Sequence[Any], launches: Mask
) -> list[tuple[str, dict[str, Columns]]]:
    """The name and the tables of each process that launches device work; none where there is only one.
    `processes` has the process of each thread, and `launches` says which calls have work on the device."""
    codes: dict[str, int] = {}
    process_of = np.array([codes.setdefault(str(process), len(codes)) for process in processes], dtype=np.int64)
    calls, device = tables["calls"], tables["device"]
    calling = process_of[calls["thread"]]
    launching = distinct(calling[launches]).tolist()
    if len(launching) < 2 or not len(device["start"]):
        return []
    working = {name: column[launches] for name, column in calls.items()}
    owner = _owners(device, working, calling[launches], launching, process_of)
    names = {code: name for name, code in codes.items()}
    split = []
    for process in launching:
        own: dict[str, Columns] = {}
        for table, columns in tables.items():
            of = owner if table == "device" else process_of[columns["thread"]]
            rows = np.flatnonzero(of == process)
            own[table] = {name: column[rows] for name, column in columns.items()}
        if len(own["device"]["start"]):
            split.append((names[process], own))
    return split if len(split) > 1 else []


def _owners(
    device: Columns, calls: Columns, calling: Integers, launching: list[int], process_of: Integers
) -> Integers:
    """The process of each row of device work; -1 where no process called it on a device that is nobody's."""
    # Whether each process can have launched each row: it has a call of its correlation that came before.
    possible = np.zeros((len(launching), len(device["start"])), dtype=bool)
    for i, process in enumerate(launching):
        rows = np.flatnonzero((calling == process) & (calls["correlation"] > 0))
        call = lookup(calls["correlation"][rows], rows, device["correlation"])
        possible[i] = (call >= 0) & (device["start"] >= np.append(calls["start"], 0)[call])
    in_turn = _in_turn(device, calls, np.searchsorted(launching, calling))
    only = np.where(possible.sum(axis=0) == 1, possible.argmax(axis=0), -1)
    # A device is named by the process id of its events, which mergers change, and by its own number.
    devices = list(rows_by_value(process_of[device["thread"]] * (1 << 20) + device["device"] % (1 << 20)).values())
    if len(devices) < len(launching):
        # Every process sees its device as number 0: nothing but the calls tells them apart.
        owner = np.where(only >= 0, only, in_turn)
    else:
        from scipy.optimize import linear_sum_assignment

        impossible = np.array([(~possible[:, rows]).sum(axis=1) for rows in devices], dtype=np.float64)
        turns = np.array([np.bincount(in_turn[rows] + 1, minlength=len(launching) + 1)[1:] for rows in devices])
        # Where nothing else tells, the first device is the first process's.
        places = np.arange(len(devices))[:, None] - np.arange(len(launching))
        cost = impossible - turns / 2 + np.abs(places) * 1e-3
        owner = np.full(len(device["start"]), -1, dtype=np.int64)
        # A process may have several devices: those that are left over go to whom they fit best.
        best = dict(enumerate(cost.argmin(axis=1).tolist()))
        best |= dict(zip(*(side.tolist() for side in linear_sum_assignment(cost)), strict=True))
        for i, rows in enumerate(devices):
            owner[rows] = best[i]
    return np.where(owner >= 0, np.array(launching)[owner], -1)


def _in_turn(device: Columns, calls: Columns, index: Integers) -> Integers:
    """The process of each row of device work if, of equal correlation ids, the first work in the file is of the
    first call in the file, and so on; -1 where the correlation id is unknown."""
    rows = np.flatnonzero(calls["correlation"] > 0)
    rows = rows[np.lexsort((calls["position"][rows], calls["correlation"][rows]))]
    known, first, count = np.unique(calls["correlation"][rows], return_index=True, return_counts=True)
    work = np.lexsort((device["position"], device["correlation"]))
    found, begin, size = np.unique(device["correlation"][work], return_index=True, return_counts=True)
    which = np.repeat(np.arange(len(found)), size)
    turn = np.arange(len(work)) - begin[which]
    at = np.minimum(np.searchsorted(known, found), len(known) - 1)
    matched = known[at] == found
    # One call of a graph launches many kernels.
    call = first[at][which] + turn * count[at][which] // size[which]
    process = np.full(len(work), -1, dtype=np.int64)
    process[work] = np.where(matched[which], index[rows[np.minimum(call, len(rows) - 1)]], -1)
    return process
