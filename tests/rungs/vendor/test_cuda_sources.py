"""nvcc compiles the CUDA sources, where it is installed; nothing is run."""

import subprocess
from pathlib import Path

import pytest

from tare.rungs.native import build, toolchain
from tare.rungs.native.toolchain import cublas, cudnn

CUDA = build.SOURCES / "vendor" / "cuda"
FLAGS = ("-std=c++17", "-O0", "-arch=sm_90", "--expt-relaxed-constexpr", "--extended-lambda")
# In place of cuDNN and cuBLASLt, whose headers come in wheels of a gigabyte.
HOST_LIBRARIES = Path(__file__).parents[2] / "support" / "host_libraries"
KERNELS = sorted(CUDA.glob("kernels_*.cu"))
PROGRAM = sorted({*CUDA.glob("*.cu")} - {*KERNELS})


def compile_to(target: Path, source: Path, *includes: Path) -> None:
    compiler = toolchain.nvcc()
    if compiler is None:
        pytest.skip("nvcc is not installed")
    command = [compiler, *FLAGS, *(f"-I{folder}" for folder in includes), "-c", str(source), "-o", str(target)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


@pytest.mark.full
@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.stem)
def test_kernels_compile_without_the_libraries(source: Path, tmp_path: Path) -> None:
    compile_to(tmp_path / "source.o", source, HOST_LIBRARIES)


@pytest.mark.full
@pytest.mark.parametrize("source", PROGRAM, ids=lambda path: path.stem)
def test_program_compiles(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDAARCHS", "90")
    lacking = build.missing_tools("vendor/cuda")
    if lacking:
        pytest.skip(f"{lacking} is not installed")
    compile_to(tmp_path / "source.o", source, *(folder / "include" for folder in (cudnn(), cublas()) if folder))
