"""The host's side of a trace: the events of every thread, the idle time they cause, and where they come from."""

import re
import sys
from functools import cached_property

import numpy as np

from tare.trace.intervals import Integers
from tare.trace.nesting import BEGINNING, NO_OWNER, Timeline, clip_to_parents, flatten, inherit, innermost
from tare.trace.tables import (
    ALLOCATE,
    COPY_CALL,
    GRAPH,
    LAUNCH,
    MEMSET_CALL,
    OTHER,
    SYNC,
    MergedSpans,
    Trace,
)

PYTHON, DISPATCH, ALLOCATION, SYNCHRONISATION, CALL, LOADING, WAITING, TAIL = range(8)
CAUSES = (
    "python",
    "dispatch",
    "allocation",
    "synchronisation",
    "launch call",
    "data loading",
    "device-side waiting",
    "tail",
)
# Indexed by `RuntimeCalls.kind`.
_CAUSE_OF_CALL = np.full(OTHER + 1, DISPATCH)
_CAUSE_OF_CALL[[LAUNCH, GRAPH, COPY_CALL, MEMSET_CALL]] = CALL
_CAUSE_OF_CALL[[SYNC, ALLOCATE]] = SYNCHRONISATION, ALLOCATION
MODULE_PREFIX = "nn.Module: "
# Kinds of Python frames.
USER_LINE, MODULE, LOADER, LIBRARY = range(4)
_LINE = re.compile(r"(?P<file>.+)\(\d+\): .+")
_LIBRARIES = ("torch", "torchvision", "transformers", "timm", "site-packages", "dist-packages")


class HostEvents(MergedSpans):
    """Operators, runtime calls and annotations of data loaders in one stack per thread.

    `cause` is the cause of idle time that each row stands for. `top` is the row of the outermost event around each
    row, or the row itself. `operator` is the row in Trace.operators, or -1 for a call or an annotation.
    """

    def __init__(self, trace: Trace) -> None:
        loaders = [code for code, name in enumerate(trace.names) if _is_loader(name)]
        marked = trace.annotations.take(np.isin(trace.annotations.name, loaders) & (trace.annotations.device == 0))
        super().__init__(trace.operators, trace.calls, marked)
        self.trace = trace
        count = len(trace.operators)
        causes = (np.full(count, DISPATCH), _CAUSE_OF_CALL[trace.calls.kind], np.full(len(marked), LOADING))
        self.cause = np.concatenate(causes)[self.rows]
        if loaders:
            loading = inherit(np.where(np.isin(self.name, loaders), LOADING, -1), self.parent)
            self.cause = np.where(loading >= 0, loading, self.cause)
        self.top = inherit(np.where(self.depth == 0, np.arange(len(self.rows)), -1), self.parent)
        self.operator = np.where(self.rows < count, self.rows, -1)
        self._cause_timelines: dict[int, Timeline] = {}

    def timeline(self, thread: int) -> Timeline:
        rows = np.flatnonzero(self.thread == thread)
        return flatten(rows, self.start, self._clipped_end, self.parent)

    def cause_timeline(self, thread: int) -> Timeline:
        """The timeline as far as causes differ. Without stacks an event is located by its outermost operator, so
        neighbours with the same outermost operator and cause are merged."""
        if thread not in self._cause_timelines:
            timeline = self.timeline(thread)
            if not self.trace.has_stacks and len(self.top):
                kind = self.top[timeline.owner] * len(CAUSES) + self.cause[timeline.owner]
                timeline = timeline.merge(np.where(timeline.owner >= 0, kind, NO_OWNER))
            self._cause_timelines[thread] = timeline
        return self._cause_timelines[thread]

    @cached_property
    def _clipped_end(self) -> Integers:
        return clip_to_parents(self.end, self.parent)

    def latest_end(self, thread: int, at: Integers) -> Integers:
        """For each moment, the latest end of the thread's events that began before it."""
        rows = np.flatnonzero(self.thread == thread)
        reached = np.maximum.accumulate(np.concatenate([[BEGINNING], self.end[rows]]))
        return reached[np.searchsorted(self.start[rows], at)]

    @cached_property
    def frames(self) -> "FrameIndex":
        return FrameIndex(self.trace)


class FrameIndex:
    """For each Python frame the nearest enclosing line of the user's code, module, and data loader."""

    def __init__(self, trace: Trace) -> None:
        self._trace, frames = trace, trace.frames
        codes, inverse = np.unique(frames.name, return_inverse=True)
        kinds = np.array([_frame_kind(trace.names[code]) for code in codes], dtype=np.int64)[inverse]
        rows = np.arange(len(frames))
        self.line, self.module, self.loading = (
            inherit(np.where(kinds == kind, rows, -1), frames.parent) for kind in (USER_LINE, MODULE, LOADER)
        )

    def frame_at(self, thread: Integers, at: Integers) -> Integers:
        """The innermost frame at each moment of a thread, or -1."""
        frames = self._trace.frames
        return innermost(frames.thread, frames.start, frames.end, frames.parent, thread, at)

    def forward_frame(self, operator: int) -> int:
        """The frame of the forward operator that belongs to a backward operator, or -1."""
        operators = self._trace.operators
        row = operator
        while row >= 0:
            origin = self.forward.get(int(operators.sequence[row]), -1)
            if origin >= 0 and origin != row:
                return self._forward_frames[origin]
            row = int(operators.parent[row])
        return -1

    @cached_property
    def _forward_frames(self) -> dict[int, int]:
        """The frame of every forward operator, in one pass: each single search takes a sort."""
        operators = self._trace.operators
        rows = np.array(list(self.forward.values()), dtype=np.int64)
        frames = self.frame_at(operators.thread[rows], operators.start[rows])
        return dict(zip(rows.tolist(), frames.tolist(), strict=True))

    @cached_property
    def forward(self) -> dict[int, int]:
        """Autograd's sequence number -> the row of the forward operator."""
        operators = self._trace.operators
        rows = np.flatnonzero((operators.sequence >= 0) & (operators.forward_thread <= 0))
        return dict(zip(operators.sequence[rows].tolist(), rows.tolist(), strict=True))


def _is_loader(name: str) -> bool:
    return "DataLoader" in name or "torch/utils/data/" in name


def _frame_kind(name: str) -> int:
    if name.startswith(MODULE_PREFIX):
        return MODULE
    if _is_loader(name):
        return LOADER
    match = _LINE.fullmatch(name)
    if not match or name.startswith("<"):
        return LIBRARY
    parts = match["file"].replace("\\", "/").lstrip("/").split("/")
    root = parts[0].removesuffix(".py")
    installed = "lib" in parts and any(part.startswith("python3") for part in parts)
    library = installed or root in sys.stdlib_module_names or any(part in _LIBRARIES for part in parts)
    return LIBRARY if library else USER_LINE
