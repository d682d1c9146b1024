"""The counter of frames built alone (it needs nothing but a compiler), for tests that do not wait for the whole
build."""

import subprocess
from pathlib import Path

from tare.native.build import SOURCES, compiler


def build_counter(folder: Path) -> Path:
    library = folder / "libtare-frames.so"
    sources = [str(SOURCES / "frames" / name) for name in ("hooks.cpp", "trap.cpp", "capture.cpp")]
    run_compiler(
        "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Werror", *sources, "-ldl", "-o", str(library)
    )
    return library


def run_compiler(*arguments: str) -> None:
    found = compiler()
    assert found, "the tests need a C++ compiler (apt-get install g++)"
    subprocess.run([found, "-std=c++20", "-O2", *arguments], check=True)
