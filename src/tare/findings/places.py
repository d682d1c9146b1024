"""Where something happens: the user's own line and module if the profiler kept stacks, else the operators around
it."""

import numpy as np

from tare.trace.host import Places as Frames
from tare.trace.tables import Integers, Trace

MODULE = "nn.Module: "


class Places:
    """A line is the first of its function: the profiler knows no other."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._frames = Frames(trace)

    def of_call(self, row: int) -> str:
        calls = self._trace.calls
        return self.line_of_call(row) or self.path(int(calls.operator[row])) or self._trace.name(calls, row)

    def line_of_call(self, row: int) -> str:
        """The user's line and module alone; empty without stacks."""
        calls = self._trace.calls
        frame = int(calls.frame[row])
        return self._text(frame if frame >= 0 else self._forward(int(calls.operator[row])))

    def of_operator(self, row: int) -> str:
        table = self._trace.operators
        own = self.at(int(table.thread[row]), int(table.start[row]))
        return own or self._text(self._forward(row)) or self.path(row)

    def of_calls(self, rows: Integers) -> dict[str, list[int]]:
        """Rows of calls by place."""
        found: dict[str, list[int]] = {}
        for row in rows.tolist():
            found.setdefault(self.of_call(row), []).append(row)
        return found

    def at(self, thread: int, moment: int) -> str:
        """The user's line that runs at a moment; empty without stacks."""
        if not self._trace.has_stacks:
            return ""
        return self._text(int(self._frames.frame_at(np.array([thread]), np.array([moment]))[0]))

    def _forward(self, operator: int) -> int:
        """The frame of the forward operator that a backward one goes back over, or -1."""
        return self._frames.forward_frame(operator) if operator >= 0 and self._trace.has_stacks else -1

    def path(self, row: int) -> str:
        """The operators around a place, outermost first; of a long path the ends."""
        names: list[str] = []
        while row >= 0:
            names.append(self._trace.name(self._trace.operators, row))
            row = int(self._trace.operators.parent[row])
        names.reverse()
        return " > ".join(names if len(names) <= 3 else [names[0], "...", names[-1]])

    def _text(self, frame: int) -> str:
        if frame < 0:
            return ""
        rows = (int(self._frames.line[frame]), int(self._frames.module[frame]))
        line, module = (self._trace.name(self._trace.frames, row) if row >= 0 else "" for row in rows)
        module = module.removeprefix(MODULE)
        return f"{line} ({module})" if line and module else line or module
