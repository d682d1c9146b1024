"""NaN and infinities in the vendor rung's kernels on a GPU: the results are those of torch."""

import subprocess
from pathlib import Path

import pytest
from not_a_number import CLAMPS, LAYOUTS, SPECIAL_VALUES, check_activation, check_pooling

from tare.rungs.native.build import SOURCES
from tare.rungs.native.toolchain import nvcc

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("calls") / "program"
    command = [nvcc() or "nvcc", "-std=c++17", "-O3", "--expt-relaxed-constexpr", "--extended-lambda"]
    includes = [f"-I{SOURCES}", f"-I{SUPPORT / 'host_libraries'}", "-arch=native"]
    subprocess.run([*command, *includes, str(SUPPORT / "cuda_calls.cu"), "-o", str(built)], check=True)
    return built


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("special", SPECIAL_VALUES)
def test_max_pool_and_its_gradient(special: tuple[float, ...], layout: str, program: Path, tmp_path: Path) -> None:
    check_pooling(special, layout, program, tmp_path)


@pytest.mark.parametrize("name", CLAMPS)
def test_activation_and_its_gradient(name: str, program: Path, tmp_path: Path) -> None:
    check_activation(name, program, tmp_path)
