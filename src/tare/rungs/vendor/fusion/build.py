"""Compiles the generated kernels of a plan into a library, kept by its source, the compiler and the processor."""

import hashlib
import secrets
import shutil
from pathlib import Path

from tare.errors import Unsupported
from tare.rungs.native import toolchain
from tare.rungs.native.build import Commands
from tare.system.home import home_folder

HEADER = Path(__file__).parents[1] / "cpu" / "expressions.hpp"
FLAGS = (
    "-std=c++17", "-O3", "-march=native", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-shared",
    "-fPIC",
)  # fmt: skip


def build_kernels(source: str, library: Path) -> None:
    """Writes the library, and its source beside it."""
    library.with_suffix(".cpp").write_text(source)
    compiler = toolchain.compiler()
    if compiler is None:
        raise Unsupported("generated kernels need a C++ compiler")
    tools = [toolchain.version_text(compiler), toolchain.processor(), FLAGS]
    digest = hashlib.sha256(source.encode() + HEADER.read_bytes() + repr(tools).encode()).hexdigest()[:24]
    kept = home_folder("native") / "kernels" / f"{digest}.so"
    if not kept.exists():
        # Under a name of its own until it is whole: several processes may build the same.
        work = kept.with_name(f"{digest}.{secrets.token_hex(4)}")
        work.mkdir(parents=True)
        inside, built = work / "kernels.cpp", work / "kernels.so"
        inside.write_text(source)
        # Where this fails, the error names the log, so the folder stays.
        Commands().run([compiler, *FLAGS, f"-I{HEADER.parent}", str(inside), "-o", str(built)], work)
        built.rename(kept)
        shutil.rmtree(work, ignore_errors=True)
    shutil.copyfile(kept, library)
