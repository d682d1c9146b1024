"""Blocks of device memory: each allocation joined to its release, and to the operator and module that made it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tare.trace.host import Places
from tare.trace.nesting import innermost
from tare.trace.tables import Integers, Mask, Trace

MODULE = "nn.Module: "
NEVER = 2**62


@dataclass(frozen=True)
class Blocks:
    """Row i is one block. `first` and `last` are positions among the events read; `kept` marks what outlives
    them."""

    trace: Trace
    start: Integers
    end: Integers
    bytes: Integers
    first: Integers
    last: Integers
    operator: Integers
    frame: Integers
    within_operator: Mask

    @cached_property
    def _places(self) -> Places:
        return Places(self.trace)

    @property
    def kept(self) -> Mask:
        return np.equal(self.end, NEVER)

    def alive(self, event: int) -> Integers:
        """Blocks that existed right after the event at this position: several may share a moment."""
        return np.flatnonzero((self.first <= event) & (self.last > event))

    def owner(self, block: int) -> str:
        """The module whose forward, or whose backward, allocated it, else the outermost operator."""
        trace, row = self.trace, int(self.operator[block])
        module = self._module(int(self.frame[block]))
        if not module and trace.has_stacks and row >= 0:
            module = self._module(self._places.forward_frame(row))
        if module:
            return module
        if row < 0:
            return "outside any operator"
        while (above := int(trace.operators.parent[row])) >= 0 and "::engine::" not in trace.name(
            trace.operators, above
        ):
            row = above
        return trace.name(trace.operators, row)

    def _module(self, frame: int) -> str:
        """The nearest module around a frame, or nothing."""
        trace = self.trace
        while frame >= 0:
            name = trace.name(trace.frames, frame)
            if name.startswith(MODULE):
                return name[len(MODULE) :]
            frame = int(trace.frames.parent[frame])
        return ""


def read_blocks(trace: Trace, rows: Integers) -> Blocks:
    """From memory events in their order; a release of what the trace never saw allocated makes no block."""
    table = trace.memory
    open_at: dict[int, int] = {}
    start: list[int] = []
    end: list[int] = []
    size: list[int] = []
    first: list[int] = []
    last: list[int] = []
    thread: list[int] = []
    for position, row in enumerate(rows.tolist()):
        address, bytes_ = int(table.address[row]), int(table.bytes[row])
        if bytes_ > 0:
            if (block := open_at.get(address, -1)) >= 0:
                # Its release was not recorded, but nothing is given out twice at a time.
                end[block], last[block] = int(table.start[row]), position
            open_at[address] = len(start)
            start.append(int(table.start[row]))
            size.append(bytes_)
            first.append(position)
            thread.append(int(table.thread[row]))
            end.append(NEVER)
            last.append(NEVER)
        elif bytes_ < 0 and (block := open_at.pop(address, -1)) >= 0:
            end[block] = int(table.start[row])
            last[block] = position
    begin, finish, sizes, opened, closed, on = (
        np.array(values, dtype=np.int64) for values in (start, end, size, first, last, thread)
    )
    at = on, begin
    operators, frames = trace.operators, trace.frames
    around = innermost(operators.thread, operators.start, operators.end, operators.parent, *at)
    frame = innermost(frames.thread, frames.start, frames.end, frames.parent, *at)
    closes = np.where(around >= 0, operators.end[np.maximum(around, 0)], -1) if len(operators) else around
    return Blocks(trace, begin, finish, sizes, opened, closed, around, frame, finish <= closes)
