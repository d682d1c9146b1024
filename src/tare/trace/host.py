"""The host's side of a trace: every event of every thread, what it means for an idle device, where it stands."""

import re
import sys
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tare.trace.intervals import Integers
from tare.trace.nesting import enclosed, inherit, innermost, nest, order
from tare.trace.tables import ALLOCATE, COPY_CALL, GRAPH, LAUNCH, MEMSET_CALL, OTHER, SYNC, Frames, Spans, Trace
from tare.trace.timeline import BEGINNING, NOBODY, Timeline, flatten

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
# By `Calls.kind`.
_CAUSE_OF_CALL = np.full(OTHER + 1, DISPATCH)
_CAUSE_OF_CALL[[LAUNCH, GRAPH, COPY_CALL, MEMSET_CALL]] = CALL
_CAUSE_OF_CALL[[SYNC, ALLOCATE]] = SYNCHRONISATION, ALLOCATION
# Kinds of frames.
LINE, MODULE, LOADER, LIBRARY = range(4)
_MODULE = "nn.Module: "
_LINE = re.compile(r"(?P<file>.+)\(\d+\): .+")
_LIBRARIES = ("torch", "torchvision", "transformers", "timm", "site-packages", "dist-packages")


@dataclass(frozen=True)
class Host:
    """Operators, calls and data loaders' annotations in one table, in order, with what each is the cause of."""

    trace: Trace
    start: Integers
    end: Integers
    thread: Integers
    parent: Integers
    depth: Integers
    name: Integers
    cause: Integers
    # The outermost row around each (itself, where nothing is).
    top: Integers
    # The row of Trace.operators, or -1 for a call or an annotation.
    operator: Integers

    def timeline(self, thread: int) -> Timeline:
        rows = np.flatnonzero(self.thread == thread)
        return flatten(rows, self.start, self._enclosed, self.parent)

    def reasons(self, thread: int) -> Timeline:
        """The timeline, as far as it matters why the device is idle. Without stacks a place is an outermost event:
        neighbours within one and of one cause are then one segment."""
        if thread not in self._reasons:
            line = self.timeline(thread)
            if not self.trace.has_stacks and len(self.top):
                kind = self.top[line.owner] * len(CAUSES) + self.cause[line.owner]
                line = line.merged(np.where(line.owner >= 0, kind, NOBODY))
            self._reasons[thread] = line
        return self._reasons[thread]

    @cached_property
    def _reasons(self) -> dict[int, Timeline]:
        return {}

    @cached_property
    def _enclosed(self) -> Integers:
        return enclosed(self.end, self.parent)

    def latest_end(self, thread: int, at: Integers) -> Integers:
        """For each moment, the latest end of what began on the thread before it."""
        rows = np.flatnonzero(self.thread == thread)
        reached = np.maximum.accumulate(np.concatenate([[BEGINNING], self.end[rows]]))
        return reached[np.searchsorted(self.start[rows], at)]

    @cached_property
    def places(self) -> "Places":
        return Places(self.trace)


def host_of(trace: Trace) -> Host:
    loaders = [code for code, name in enumerate(trace.names) if _loads(name)]
    marked = trace.annotations.take(np.isin(trace.annotations.name, loaders) & (trace.annotations.device == 0))
    tables: tuple[Spans, ...] = (trace.operators, trace.calls, marked)
    start, end, name, thread = (
        np.concatenate([getattr(table, column) for table in tables])
        for column in ("start", "end", "name", "thread")
    )
    own = np.concatenate(
        [
            np.full(len(trace.operators), DISPATCH),
            _CAUSE_OF_CALL[trace.calls.kind],
            np.full(len(marked), LOADING),
        ]
    )
    operator = np.concatenate([np.arange(len(trace.operators)), np.full(len(trace.calls) + len(marked), -1)])
    rows = order(start, end)
    start, end, name, thread = (column.take(rows) for column in (start, end, name, thread))
    parent, depth = nest(thread, start, end)
    cause = own[rows]
    if loaders:
        loading = inherit(np.where(np.isin(name, loaders), LOADING, -1), parent)
        cause = np.where(loading >= 0, loading, cause)
    top = inherit(np.where(depth == 0, np.arange(len(rows)), -1), parent)
    return Host(
        trace=trace,
        start=start,
        end=end,
        thread=thread,
        parent=parent,
        depth=depth,
        name=name,
        cause=cause,
        top=top,
        operator=operator[rows].astype(np.int64),
    )


class Places:
    """Where a frame stands: the nearest line of the user's own code, the nearest module, the data loader."""

    def __init__(self, trace: Trace) -> None:
        frames: Frames = trace.frames
        self._trace = trace
        codes, inverse = np.unique(frames.name, return_inverse=True)
        own = np.array([_frame_kind(trace.names[code]) for code in codes], dtype=np.int64)[inverse]
        rows = np.arange(len(frames))

        def nearest(kind: int) -> Integers:
            return inherit(np.where(own == kind, rows, -1), frames.parent)

        self.line, self.module, self.loading = nearest(LINE), nearest(MODULE), nearest(LOADER)

    def frame_at(self, thread: Integers, at: Integers) -> Integers:
        """The innermost frame at each moment of a thread, or -1."""
        frames = self._trace.frames
        return innermost(frames.thread, frames.start, frames.end, frames.parent, thread, at)

    def forward_frame(self, operator: int) -> int:
        """The frame in which the forward operator ran that a backward operator goes back over, or -1."""
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
        """The frame of every operator of the forward pass, found at once: one by one takes a sort each."""
        operators = self._trace.operators
        rows = np.array(list(self.forward.values()), dtype=np.int64)
        frames = self.frame_at(operators.thread[rows], operators.start[rows])
        return dict(zip(rows.tolist(), frames.tolist(), strict=True))

    @cached_property
    def forward(self) -> dict[int, int]:
        """Sequence number -> the operator of the forward pass that bears it: autograd's link between the two."""
        operators = self._trace.operators
        rows = np.flatnonzero((operators.sequence >= 0) & (operators.forward_thread <= 0))
        return dict(zip(operators.sequence[rows].tolist(), rows.tolist(), strict=True))


def _loads(name: str) -> bool:
    return "DataLoader" in name or "torch/utils/data/" in name


def _frame_kind(name: str) -> int:
    if name.startswith(_MODULE):
        return MODULE
    if _loads(name):
        return LOADER
    found = _LINE.fullmatch(name)
    if not found or name.startswith("<"):
        return LIBRARY
    parts = found["file"].replace("\\", "/").lstrip("/").split("/")
    root = parts[0].removesuffix(".py")
    installed = "lib" in parts and any(part.startswith("python3") for part in parts)
    library = installed or root in sys.stdlib_module_names or any(part in _LIBRARIES for part in parts)
    return LIBRARY if library else LINE
