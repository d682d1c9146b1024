"""A stack with each frame's owner, read from what the counter (native/frames) and the Python worker wrote."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Literal

import msgspec

Part = Literal["python", "interpreter", "framework", "vendor", "system"]
Kind = Literal["convolution", "product", "recurrent", "graph", "other"]

# Whose code a frame is, by the file it lies in.
MODULES: tuple[tuple[str, Part], ...] = (
    (r"lib(cudnn|cublas|cublasLt|arm_compute|openblas|mkl|dnnl|scipy_openblas)", "vendor"),
    (r"(libpython|python3?(\.\d+)?$|_ctypes\.)", "interpreter"),
    (r"(libc\.|libpthread|libm\.|ld-linux|libstdc\+\+|libgomp|libgcc_s|libdl|librt|linux-vdso|libffi)", "system"),
)
# A vendor's code is compiled into the framework's library too: oneDNN and its ideep, cuDNN's header-only
# frontend, MKL.
VENDOR = re.compile(
    r"(dnnl(_|::)|ideep::|cudnn_frontend::|arm_compute::|mkl_|cblas_|[sd]b?gemm_?$|cublas|cudnn[A-Z])"
)
INTERPRETER_LOOP = "_PyEval_EvalFrameDefault"
# The call by which native/worker/worker.hpp enters the program's step.
WORKER_CALL = "tare::count_frames("


class Frame(msgspec.Struct, frozen=True):
    name: str
    where: str
    part: Part


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """From the entry of the vendor library (first) to the user's call (last). Python's own frames are a stack
    of their own: since CPython 3.11 a Python function called by another has no C frame."""

    entry: str
    kind: Kind
    # False for what another thread called: its stack does not lead to the user's call.
    anchored: bool
    python: tuple[Frame, ...]
    native: tuple[Frame, ...]

    def count(self, part: Part) -> int:
        return sum(frame.part == part for frame in (*self.python, *self.native))

    @property
    def total(self) -> int:
        return len(self.python) + len(self.native)


class _Place(msgspec.Struct):
    module: str
    symbol: str


class _Hit(msgspec.Struct):
    entry: str
    kind: Kind
    anchored: bool
    stack: list[int]


class _Report(msgspec.Struct):
    program: str
    places: list[_Place]
    hits: list[_Hit]
    laments: dict[str, str]


class _PythonFrame(msgspec.Struct):
    name: str
    file: str
    line: int


def read_stacks(counted: Path, python: Path) -> tuple[list[Stack], dict[str, str]]:
    """The stacks of one step, and what could not be hooked with the reason."""
    report = msgspec.json.decode(counted.read_bytes(), type=_Report)
    own: dict[int, list[_PythonFrame]] = {}
    if python.exists():
        own = msgspec.json.decode(python.read_bytes(), type=dict[int, list[_PythonFrame]])
    places = [_frame(place, report.program) for place in report.places]
    stacks = []
    for index, hit in enumerate(report.hits):
        entry = Frame(hit.entry, "", "vendor")
        native = _without_glue([places[i] for i in hit.stack], bool(own))
        frames = (Frame(f.name, f"{PurePath(f.file).name}:{f.line}", "python") for f in own.get(index, ()))
        stacks.append(
            Stack(
                entry=hit.entry,
                kind=hit.kind,
                anchored=hit.anchored,
                python=tuple(frames),
                native=(entry, *native),
            )
        )
    return stacks, report.laments


def choose(stacks: Sequence[Stack]) -> Stack | None:
    """The call that is counted: the step's first convolution, or its first matrix product if it has none, or
    the launch of a graph in which those were captured."""
    for kinds in (("convolution",), ("product", "recurrent"), ("graph",)):
        found = next((s for s in stacks if s.anchored and s.kind in kinds), None)
        if found:
            return found
    return None


def part_of(module: str, symbol: str) -> Part:
    """Whose code a frame is: what is named like a vendor's is the vendor's wherever it lies."""
    if VENDOR.match(_bare(symbol)):
        return "vendor"
    name = PurePath(module).name
    return next((part for pattern, part in MODULES if re.match(pattern, name)), "framework")


def _frame(place: _Place, program: str) -> Frame:
    module = place.module if "/" in place.module else program
    return Frame(place.symbol or "?", PurePath(module).name, part_of(module, place.symbol))


def _without_glue(frames: list[Frame], is_python: bool) -> list[Frame]:
    """Without the frames by which the worker enters the user's call."""
    if is_python:
        loops = [i for i, frame in enumerate(frames) if frame.name == INTERPRETER_LOOP]
        return frames[: loops[-1] + 1] if loops else frames
    while frames and frames[-1].name.startswith(WORKER_CALL):
        frames = frames[:-1]
    return frames


def _bare(symbol: str) -> str:
    """A demangled name without its template arguments, its parameters and its return type."""
    depth, kept = 0, []
    for character in symbol:
        if character == "(" and depth == 0:
            break
        depth += (character == "<") - (character == ">")
        if depth == 0 and character != ">":
            kept.append(character)
    return "".join(kept).split(" ")[-1]
