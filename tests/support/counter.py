"""The counter of frames built alone (it needs nothing but a compiler), for tests that do not wait for the whole
build; and the stacks that it counts."""

import subprocess
from pathlib import Path

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.call_stacks import count_frames
from tare.execute.executor import LocalExecutor
from tare.execute.launch import make_launcher
from tare.records.call_depth import CallDepth, Stack
from tare.rungs.native.build import SOURCES
from tare.rungs.native.toolchain import compiler

OPTIONS = Options(rounds=1, timeout=600)


def build_counter(folder: Path) -> Path:
    library = folder / "libtare-frames.so"
    sources = [str(SOURCES / "native" / "frames" / name) for name in ("hooks.cpp", "trap.cpp", "capture.cpp")]
    run_compiler(
        "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Werror", *sources, "-ldl", "-o", str(library)
    )
    return library


def run_compiler(*arguments: str) -> None:
    found = compiler()
    assert found, "the tests need a C++ compiler (apt-get install g++)"
    subprocess.run([found, "-std=c++20", "-O2", *arguments], check=True)


class StackCounter:
    """Counts the stacks of cases, each in a fresh process."""

    def __init__(self, folder: Path) -> None:
        self.library = str(build_counter(folder))
        self.executor = LocalExecutor(make_launcher("spawn"), folder / "scratch")

    def depth(self, case: Case) -> CallDepth:
        [found] = self.depths([case])
        return found

    def depths(self, cases: list[Case], options: Options = OPTIONS) -> list[CallDepth]:
        return list(count_frames(self.executor, cases, self.library, options))

    def stack(self, case: Case) -> Stack:
        return stack_of(self.depth(case))

    def close(self) -> None:
        self.executor.close()


def stack_of(depth: CallDepth) -> Stack:
    assert depth.failure is None, depth.failure
    assert depth.stack is not None, depth.unwatched
    return depth.stack
