"""The host's side of a trace: the events of every thread, and the cause of idle time that each stands for."""

from dataclasses import dataclass

import numpy as np

from tare.trace.intervals import Integers
from tare.trace.names import is_loader
from tare.trace.spans import NestedSpans, merge
from tare.trace.tables import ALLOCATE, OTHER, SYNC, WORKING, Trace, once

PYTHON, DISPATCH, ALLOCATION, SYNCHRONISATION, CALL, LOADING, WAITING, TAIL, BEFORE, HOST_WAIT, UNKNOWN = range(11)
CAUSES = (
    "python",
    "dispatch",
    "allocation",
    "synchronisation",
    "launch call",
    "data loading",
    "device-side waiting",
    "tail",
    # Only long gaps have these; most traces have none.
    "work before the trace",
    "host waiting",
    "not known",
)
USUAL_CAUSES = CAUSES[: TAIL + 1]
# Indexed by `RuntimeCalls.kind`.
_CAUSE_OF_CALL = np.full(OTHER + 1, DISPATCH)
_CAUSE_OF_CALL[list(WORKING)] = CALL
_CAUSE_OF_CALL[[SYNC, ALLOCATE]] = SYNCHRONISATION, ALLOCATION


@dataclass(frozen=True)
class HostEvents(NestedSpans):
    """Operators, runtime calls and annotations of data loaders in one stack per thread.

    `operator` is the row in Trace.operators, or -1 for a call or an annotation. `stepping_thread` runs the steps.
    """

    cause: Integers
    operator: Integers
    stepping_thread: int


@once
def host_events(trace: Trace) -> HostEvents:
    loading = trace.matching(trace.annotations, is_loader) & (trace.annotations.device == 0)
    marked = trace.annotations.take(loading)
    columns, rows = merge(trace.operators, trace.calls, marked)
    count = len(trace.operators)
    causes = (np.full(count, DISPATCH), _CAUSE_OF_CALL[trace.calls.kind], np.full(len(marked), LOADING))
    spans = NestedSpans(**columns)
    in_loader = spans.inherit(np.where(trace.matching(spans, is_loader), LOADING, -1))
    stepping = int(trace.steps.thread[0]) if len(trace.steps) else -1
    if stepping not in spans.thread and len(spans):
        # The thread with the most operators, or without any the most events.
        threads = spans.thread[rows < count] if count else spans.thread
        stepping = int(np.bincount(threads).argmax())
    return HostEvents(
        **columns,
        cause=np.where(in_loader >= 0, LOADING, np.concatenate(causes)[rows]),
        operator=np.where(rows < count, rows, -1),
        stepping_thread=stepping,
    )
