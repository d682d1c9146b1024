"""The CUDA program's own and generated kernels, compiled for the CPU (tests/support/host_cuda)."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from counter import run_compiler

from tare.rungs.native import toolchain
from tare.rungs.native.build import SOURCES, build_key
from tare.rungs.vendor.fusion import build
from tare.system.home import home_folder

HOST_CUDA = Path(__file__).with_name("host_cuda")
# In place of cuDNN, cuBLAS and cuBLASLt.
LIBRARIES = HOST_CUDA.with_name("host_libraries")


def host_program(folder: Path) -> Path:
    """Cached like the programs that tare builds: it takes half a minute to compile."""
    library = toolchain.blas()
    if library is None:
        pytest.skip("SciPy has no OpenBLAS here")
    cached = home_folder("native") / f"host-cuda-{_cache_key(library)}"
    if cached.exists():
        return cached
    unfinished = folder / "program"
    # `-rdynamic`: libraries of generated kernels share the threads of this program.
    links = [str(library), "-pthread", "-rdynamic", "-ldl", "-Wl,--allow-shlib-undefined"]
    includes = [f"-I{folder}" for folder in (HOST_CUDA, LIBRARIES, SOURCES)]
    run = [
        *includes,
        str(HOST_CUDA / "program.cpp"),
        *links,
        f"-Wl,-rpath,{library.parent}",
        "-o",
        str(unfinished),
    ]
    run_compiler("-O1", *run)
    # Renamed into place, so that a concurrent test process never sees half a file.
    temporary = cached.with_name(f"{cached.name}.{os.getpid()}")
    shutil.copy(unfinished, temporary)
    temporary.replace(cached)
    return cached


def _cache_key(library: Path) -> str:
    """This file has the compiler's flags, and `build_key` covers the compiler and tare's own sources."""
    digest = hashlib.sha256(f"{library} {build_key('vendor/cpu')}".encode() + Path(__file__).read_bytes())
    for folder in (HOST_CUDA, LIBRARIES, SOURCES / "vendor"):
        for path in sorted(path for path in folder.rglob("*") if path.suffix in (".h", ".hpp", ".cpp", ".cuh")):
            digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def compile_for_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that are generated for a GPU become a library for the CPU, under the name of the GPU's."""
    flags = ("-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{HOST_CUDA}", "-x", "c++")
    target = build.TARGETS["cuda"]._replace(
        compiler=toolchain.compiler, processor=toolchain.processor, flags=lambda: flags
    )
    monkeypatch.setitem(build.TARGETS, "cuda", target)
