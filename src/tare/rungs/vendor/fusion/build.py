"""Compiles the generated kernels of a plan: on a CPU into a library, on a GPU into their code. What is compiled is
kept by its source, the compiler and the processor."""

import hashlib
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tare.errors import Unsupported
from tare.rungs.native import toolchain
from tare.rungs.native.build import Commands
from tare.system.home import home_folder

VENDOR = Path(__file__).parents[1]
CPU_FLAGS = (
    "-std=c++17", "-O3", "-march=native", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-shared",
    "-fPIC",
)  # fmt: skip
# Not every kernel calls all that the headers have (177), or needs the last place that it computes (550).
CUDA_FLAGS = ("-std=c++17", "-O3", "-fatbin", "-diag-suppress", "177,550")


class KernelCompiler(NamedTuple):
    """How the kernels of a kind of device are compiled. `processor` names what the result runs on."""

    compiler: Callable[[], str | None]
    needed: str
    processor: Callable[[], str]
    flags: Callable[[], tuple[str, ...]]
    source: str
    result: str
    folder: str
    headers: tuple[str, ...]


def _architectures() -> tuple[str, ...]:
    names = [name for name in toolchain.architectures().split(";") if name]
    if not names:
        raise Unsupported(
            "generated kernels need an NVIDIA GPU, or CUDAARCHS=90 to compile them for one elsewhere"
        )
    return tuple(word for name in names for word in ("-gencode", f"arch=compute_{name},code=sm_{name}"))


TARGETS = {
    "cpu": KernelCompiler(
        toolchain.compiler, "a C++ compiler", toolchain.processor, lambda: CPU_FLAGS, "kernels.cpp", "kernels.so",
        "cpu", ("cpu/expressions.hpp", "cpu/halves.hpp"),
    ),
    "cuda": KernelCompiler(
        toolchain.nvcc, "nvcc", toolchain.architectures, lambda: (*CUDA_FLAGS, *_architectures()), "kernels.cu",
        "kernels.fatbin", "cuda", ("cpu/expressions.hpp", "cuda/expressions.cuh"),
    ),
}  # fmt: skip


def build_kernels(source: str, device: str, folder: Path) -> None:
    """Writes the compiled kernels into a folder, and their source beside them."""
    target = TARGETS[device]
    (folder / target.source).write_text(source)
    compiler = target.compiler()
    if compiler is None:
        raise Unsupported(f"generated kernels need {target.needed}")
    flags = target.flags()
    tools = [toolchain.version_text(compiler), target.processor(), flags]
    headers = b"".join((VENDOR / header).read_bytes() for header in target.headers)
    digest = hashlib.sha256(source.encode() + headers + repr(tools).encode()).hexdigest()[:24]
    kept = home_folder("native") / "kernels" / f"{digest}{Path(target.result).suffix}"
    if not kept.exists():
        # Under a name of its own until it is whole: several processes may build the same.
        work = kept.with_name(f"{digest}.{secrets.token_hex(4)}")
        work.mkdir(parents=True)
        inside, built = work / target.source, work / target.result
        inside.write_text(source)
        # Where this fails, the error names the log, so the folder stays.
        command = [compiler, *flags, f"-I{VENDOR / target.folder}", str(inside), "-o", str(built)]
        Commands().run(command, work)
        built.rename(kept)
        shutil.rmtree(work, ignore_errors=True)
    shutil.copyfile(kept, folder / target.result)
