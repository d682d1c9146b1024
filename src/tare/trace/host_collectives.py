"""Collectives that the host carries out (gloo, MPI), as device work on a stream of their own.

NCCL's collectives are kernels. Gloo's run on threads of the host, where torch marks them (`gloo:all_reduce`); the
device sees only copies, and the time in which it waits for other ranks would be idle for no reason.
"""

import re

import numpy as np

from tare.trace.collective_names import operation
from tare.trace.intervals import Integers
from tare.trace.spans import order
from tare.trace.tables import KERNEL

_ON_HOST = re.compile(r"(?:gloo|mpi):\w")
_ENQUEUES = re.compile(r"_?c10d(?:_functional)?::(?!wait)")
# The call that stands for the operation: the host enqueues the collective and goes on.
ENQUEUED = "LaunchCollective (on the host)"
Table = dict[str, Integers]


def add_host_collectives(tables: dict[str, Table], names: list[str]) -> None:
    """Adds the host's collectives to the device's work, and a call for each that an operation has enqueued. A
    trace without device work stays as it is: its host computes."""
    device, marks, operators = tables["device"], tables["annotations"], tables["operators"]
    codes = [code for code, name in enumerate(names) if _ON_HOST.match(name)]
    spans = np.flatnonzero(np.isin(marks["name"], codes) & (marks["kind"] == 0))
    if not len(spans) or not len(device["start"]):
        return
    operator = _enqueued_by(marks, spans, operators, names)
    launched = np.flatnonzero(operator >= 0)
    calls = tables["calls"]
    free = 1 + max(int(calls["correlation"].max(initial=0)), int(device["correlation"].max(initial=0)))
    correlation = np.full(len(spans), -1, dtype=np.int64)
    correlation[launched] = free + np.arange(len(launched))
    begun, caller = marks["start"][spans[launched]], operator[launched]
    names.append(ENQUEUED)
    called = {
        "start": operators["start"][caller],
        "end": np.minimum(operators["end"][caller], begun),
        "thread": operators["thread"][caller],
        "name": np.full(len(launched), len(names) - 1),
        "correlation": correlation[launched],
    }
    tables["calls"] = with_rows(calls, called)
    # Two of them may run at once, on two threads: one stream for each thread.
    _, thread = np.unique(marks["thread"][spans], return_inverse=True)
    work = {
        "start": marks["start"][spans],
        "end": marks["end"][spans],
        "name": marks["name"][spans],
        "kind": np.full(len(spans), KERNEL),
        "device": np.full(len(spans), np.bincount(np.maximum(device["device"], 0)).argmax()),
        "stream": int(device["stream"].max()) + 1 + thread.reshape(-1),
        "correlation": correlation,
        # The codes of no launch shape and of no message.
        "shapes": np.zeros(len(spans), dtype=np.int64),
        "message": np.zeros(len(spans), dtype=np.int64),
    }
    tables["device"] = with_rows(device, work)


def _enqueued_by(marks: Table, spans: Integers, operators: Table, names: list[str]) -> Integers:
    """The operation that enqueued each collective, or -1: a queue is first in, first out."""
    enqueues = [bool(_ENQUEUES.match(name)) for name in names]
    rows = np.flatnonzero(np.array(enqueues, dtype=bool)[operators["name"]])
    found = np.full(len(spans), -1, dtype=np.int64)
    kinds = [operation(name) for name in names]
    for kind in {kinds[code] for code in marks["name"][spans].tolist()}:
        of_kind = np.array([each == kind for each in kinds], dtype=bool)
        own = np.flatnonzero(of_kind[marks["name"][spans]])
        callers = rows[of_kind[operators["name"][rows]]]
        # Those that were enqueued before the recording began come first.
        own = own[max(len(own) - len(callers), 0) :]
        callers = callers[: len(own)]
        fits = operators["start"][callers] <= marks["start"][spans[own]]
        found[own[fits]] = callers[fits]
    return found


def with_rows(table: Table, more: Table) -> Table:
    """The table and further rows, in order; a column that these do not have is -1 there."""
    length = len(more["start"])
    joined = {
        column: np.concatenate([values, more.get(column, np.full(length, -1, dtype=np.int64))])
        for column, values in table.items()
    }
    rows = order(joined["start"], joined["end"])
    return {column: values.take(rows) for column, values in joined.items()}
