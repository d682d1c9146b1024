"""The call stack of a rung that runs in Python: the preloaded counter records the C frames, this the Python
ones."""

import ctypes
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from tare.errors import TareError
from tare.protocol.jobs import FramesJob
from tare.protocol.messages import Send
from tare.worker.preparation import open_program

PYTHON_FRAMES = "python.json"
# Libraries choose algorithms and reorder weights in the first steps; native/worker/worker.hpp runs as many.
STEPS_BEFORE = 3


def count_frames(job: FramesJob, _: Send) -> None:
    """Runs one step as the user's call. The counter writes its own report; the Python frames go beside it."""
    frames_of_hit: dict[int, list[dict[str, Any]]] = {}
    here = sys._getframe()

    def record_frames(index: int) -> None:
        frames_of_hit[index] = _frames(sys._getframe(1), here)

    with open_program(job.case, job.cache) as program:
        clock = program.clock()
        clock.time(program.step, STEPS_BEFORE)
        counter = _counter()
        # Called at each hit on this thread; ctypes acquires the GIL, which most calls into torch have released.
        callback = ctypes.CFUNCTYPE(None, ctypes.c_long)(record_frames)
        counter.tare_frames_on_hit(callback)
        clock.time(lambda: counter.tare_frames_call_python(program.step), 1)
        (Path(job.folder) / PYTHON_FRAMES).write_text(json.dumps(frames_of_hit))


def _counter() -> Any:
    counter = ctypes.PyDLL(None)
    try:
        call = counter.tare_frames_call_python
    except AttributeError:
        raise TareError("the counter of frames is not preloaded") from None
    call.argtypes, call.restype = [ctypes.py_object], ctypes.py_object
    return counter


def _frames(frame: FrameType | None, harness: FrameType) -> list[dict[str, Any]]:
    """From the innermost frame to the user's call. Between that and the harness are the clock and a lambda."""
    frames = []
    while frame is not None and frame is not harness:
        code = frame.f_code
        frames.append({"name": code.co_qualname, "file": code.co_filename, "line": frame.f_lineno})
        frame = frame.f_back
    while frames and frames[-1]["file"] != __file__:
        frames.pop()
    return frames[:-1]
