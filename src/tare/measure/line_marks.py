"""Marks in a trace of torch.profiler which line of a program runs: the profiler records of a Python function only
the line that defines it.

Each new line of a function that is not a library's leaves an empty region in the trace, from which the reader
(tare.trace.lines) tells what each line launched. That slows down the host: it is for recordings with stacks, of
which no time is taken. This file needs the standard library and torch alone (see tare.measure.live_recorder).
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

# What the reader looks for: `tare::line 12 train_step`.
PREFIX = "tare::line"
# A program that runs more lines than this in its recorded steps is marked no further: the trace would be large.
MOST_MARKS = 50_000
_HERE = str(Path(__file__).parent)
_LIBRARIES = ("/site-packages/", "/dist-packages/")
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


class LineMarks:
    """Marks lines on the thread that calls `begin`, from then on until `end`. Nothing where a debugger or a
    coverage tool traces the program, or torch is too old."""

    def __init__(self) -> None:
        self._regions: dict[tuple[CodeType, int], Any] = {}
        self._users: dict[CodeType, bool] = {}
        self._marks, self.began = 0, False
        self._region: Any = None

    def begin(self) -> None:
        import torch

        self._region = getattr(torch._C._profiler, "_RecordFunctionFast", None)
        if self._region is None or sys.gettrace() is not None:
            return
        # torch.compile would compile these functions where they are called within a compiled one.
        if skip := getattr(getattr(torch._C._dynamo, "eval_frame", None), "skip_code", None):
            for function in (LineMarks._call, LineMarks._line, LineMarks._is_users):
                skip(function.__code__)
        self.began = True
        # Functions that run already get no call.
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if self._is_users(frame.f_code):
                frame.f_trace = self._line
            frame = frame.f_back
        sys.settrace(self._call)

    def end(self) -> None:
        if not self.began:
            return
        sys.settrace(None)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_trace == self._line:
                frame.f_trace = None
            frame = frame.f_back

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG002
        return self._line if self._is_users(frame.f_code) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG002
        if event == "line" and self._marks < MOST_MARKS:
            self._marks += 1
            key = (frame.f_code, frame.f_lineno)
            if (region := self._regions.get(key)) is None:
                # Beyond the last mark no line is known: the last one would be wrong.
                line = frame.f_lineno if self._marks < MOST_MARKS else 0
                region = self._region(f"{PREFIX} {line} {frame.f_code.co_name}")
                self._regions[key] = region
            with region:
                pass
        return self._line

    def _is_users(self, code: CodeType) -> bool:
        if (known := self._users.get(code)) is None:
            file = code.co_filename.replace("\\", "/")
            library = file.startswith(("<", *_STANDARD)) or any(part in file for part in _LIBRARIES)
            # The workloads of an installed tare are as good as a user's.
            users = not library or "/tare/workloads/" in file
            known = self._users[code] = users and not file.startswith(_HERE)
        return known
