"""The CUDA sources compiled by nvcc, where there is one; nothing is run."""

import subprocess
from pathlib import Path

import pytest

from tare.rungs.native import build
from tare.rungs.native.libraries import cublas, cudnn

CUDA = build.SOURCES / "vendor" / "cuda"
FLAGS = ("-std=c++17", "-O0", "-arch=sm_90", "--expt-relaxed-constexpr", "--extended-lambda")
# In the place of cuDNN and cuBLASLt, whose headers come in wheels of a gigabyte.
STAND_INS = Path(__file__).parents[1] / "support" / "host_libraries"
KERNELS = sorted(CUDA.glob("kernels_*.cu"))
REST = sorted({*CUDA.glob("*.cu")} - {*KERNELS})


def compile_to(made: Path, source: Path, *includes: Path) -> None:
    compiler = build.nvcc()
    if compiler is None:
        pytest.skip("no nvcc here")
    command = [compiler, *FLAGS, *(f"-I{folder}" for folder in includes), "-c", str(source), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.stem)
def test_our_kernels_compile_without_the_libraries(source: Path, tmp_path: Path) -> None:
    compile_to(tmp_path / "made.o", source, STAND_INS)


@pytest.mark.parametrize("source", REST, ids=lambda path: path.stem)
def test_the_rest_compiles_where_it_can(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDAARCHS", "90")
    lacking = build.missing_tools("vendor/cuda")
    if lacking:
        pytest.skip(f"no {lacking} here")
    compile_to(tmp_path / "made.o", source, *(folder / "include" for folder in (cudnn(), cublas()) if folder))
