"""Reads the stacks that the frame counter (rungs/native/frames) and the Python worker wrote."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePath

import msgspec

from tare.records.call_depth import CallKind, Frame, FramePart, Stack

# The owner of a frame, by the file that its code lies in. Any other file belongs to the framework.
LIBRARIES: tuple[tuple[str, FramePart], ...] = (
    (r"lib(cudnn|cublas|cublasLt|arm_compute|openblas|mkl|dnnl|scipy_openblas)", "vendor"),
    (r"(libpython|python3?(\.\d+)?$|_ctypes\.)", "interpreter"),
    (r"(libc\.|libpthread|libm\.|ld-linux|libstdc\+\+|libgomp|libgcc_s|libdl|librt|linux-vdso|libffi)", "system"),
)
# Vendor code is also compiled into the framework's library: oneDNN and ideep, cuDNN's header-only frontend, MKL.
VENDOR = re.compile(
    r"(dnnl(_|::)|ideep::|cudnn_frontend::|arm_compute::|mkl_|cblas_|[sd]b?gemm_?$|cublas|cudnn[A-Z])"
)
INTERPRETER_LOOP = "_PyEval_EvalFrameDefault"
# The call by which native/worker/worker.hpp enters the program's step.
WORKER_CALL = "tare::count_frames("


class _Address(msgspec.Struct):
    module: str
    symbol: str


class _Hit(msgspec.Struct):
    entry: str
    kind: CallKind
    anchored: bool
    stack: list[int]


class _CounterReport(msgspec.Struct):
    program: str
    places: list[_Address]
    hits: list[_Hit]
    unwatched: dict[str, str]


class _PythonFrame(msgspec.Struct):
    name: str
    file: str
    line: int


def read_stacks(native: Path, python: Path) -> tuple[list[Stack], dict[str, str]]:
    """The stacks of one step, and the entry points that could not be watched with the reasons."""
    report = msgspec.json.decode(native.read_bytes(), type=_CounterReport)
    python_frames: dict[int, list[_PythonFrame]] = {}
    if python.exists():
        python_frames = msgspec.json.decode(python.read_bytes(), type=dict[int, list[_PythonFrame]])
    frames = [_frame(address, report.program) for address in report.places]
    stacks = []
    for index, hit in enumerate(report.hits):
        callers = _without_worker([frames[i] for i in hit.stack], bool(python_frames))
        stacks.append(
            Stack(
                entry=hit.entry,
                kind=hit.kind,
                anchored=hit.anchored,
                python=tuple(
                    Frame(f.name, f"{PurePath(f.file).name}:{f.line}", "python")
                    for f in python_frames.get(index, ())
                ),
                native=(Frame(hit.entry, "", "vendor"), *callers),
            )
        )
    return stacks, report.unwatched


def choose_stack(stacks: Sequence[Stack]) -> Stack | None:
    """The call that is counted: the step's first convolution, else its first matrix product, else the launch of
    the graph in which those were captured."""
    for kinds in (("convolution",), ("product", "recurrent"), ("graph",)):
        for stack in stacks:
            if stack.anchored and stack.kind in kinds:
                return stack
    return None


def frame_part(module: str, symbol: str) -> FramePart:
    """The owner of a frame. A symbol with a vendor's name is the vendor's in any file."""
    if VENDOR.match(_plain_name(symbol)):
        return "vendor"
    name = PurePath(module).name
    return next((part for pattern, part in LIBRARIES if re.match(pattern, name)), "framework")


def _frame(address: _Address, program: str) -> Frame:
    module = address.module if "/" in address.module else program
    return Frame(address.symbol or "?", PurePath(module).name, frame_part(module, address.symbol))


def _without_worker(frames: list[Frame], is_python: bool) -> list[Frame]:
    """Without the frames by which the worker enters the user's call."""
    if is_python:
        loops = [i for i, frame in enumerate(frames) if frame.name == INTERPRETER_LOOP]
        return frames[: loops[-1] + 1] if loops else frames
    while frames and frames[-1].name.startswith(WORKER_CALL):
        frames = frames[:-1]
    return frames


def _plain_name(symbol: str) -> str:
    """A demangled name without template arguments, parameters and return type."""
    depth, kept = 0, []
    for character in symbol:
        if character == "(" and depth == 0:
            break
        depth += (character == "<") - (character == ">")
        if depth == 0 and character != ">":
            kept.append(character)
    return "".join(kept).split(" ")[-1]
