"""The stack of a rung that runs in Python: the preloaded counter takes the C frames, Python says its own."""

import ctypes
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from tare.errors import TareError
from tare.measure.devices import make_clock
from tare.protocol.jobs import FramesJob
from tare.rungs import get_rung
from tare.rungs.torch.numerics import pin_flags
from tare.workloads import get_workload

PYTHON_FRAMES = "python.json"
# Libraries choose algorithms and reorder weights in the first steps; native/worker/worker.hpp makes as many.
STEPS_BEFORE = 3


def count(job: FramesJob) -> None:
    """Makes one step as the user's call. The counter writes its own report; the Python frames go beside it."""
    pin_flags(job.case)
    program = get_rung(job.case.rung).prepare(get_workload(job.case.workload), job.case)
    make_clock(program.device).time(program.step, STEPS_BEFORE)
    found: dict[int, list[dict[str, Any]]] = {}
    here = sys._getframe()

    def look(index: int) -> None:
        found[index] = _frames(sys._getframe(1), here)

    counter = _counter()
    # Called at each hit on this thread; ctypes takes the interpreter's lock, which most calls of torch have left.
    callback = ctypes.CFUNCTYPE(None, ctypes.c_long)(look)
    counter.tare_frames_on_hit(callback)
    make_clock(program.device).time(lambda: counter.tare_frames_call_python(program.step), 1)
    (Path(job.folder) / PYTHON_FRAMES).write_text(json.dumps(found))
    program.close()


def _counter() -> Any:
    counter = ctypes.PyDLL(None)
    try:
        call = counter.tare_frames_call_python
    except AttributeError:
        raise TareError("the counter of frames is not preloaded") from None
    call.argtypes, call.restype = [ctypes.py_object], ctypes.py_object
    return counter


def _frames(frame: FrameType | None, harness: FrameType) -> list[dict[str, Any]]:
    """From the innermost to the user's call. Between that and the harness stand the clock and a lambda."""
    frames = []
    while frame is not None and frame is not harness:
        code = frame.f_code
        frames.append({"name": code.co_qualname, "file": code.co_filename, "line": frame.f_lineno})
        frame = frame.f_back
    while frames and frames[-1]["file"] != __file__:
        frames.pop()
    return frames[:-1]
