"""What the vendor rung's kernels make of numbers that are none on a GPU: the same as torch."""

import subprocess
from pathlib import Path

import pytest
from not_a_number import CLAMPS, LAYOUTS, SPOILT, check_activation, check_pooling

from tare.rungs.native.build import SOURCES, nvcc

HERE = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("calls") / "program"
    command = [nvcc() or "nvcc", "-std=c++17", "-O3", "--expt-relaxed-constexpr", "--extended-lambda"]
    places = [f"-I{SOURCES}", f"-I{HERE / 'host_libraries'}", "-arch=native"]
    subprocess.run([*command, *places, str(HERE / "cuda_calls.cu"), "-o", str(made)], check=True)
    return made


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spoil", SPOILT)
def test_a_maximum_and_its_place(spoil: tuple[float, ...], layout: str, program: Path, tmp_path: Path) -> None:
    check_pooling(spoil, layout, program, tmp_path)


@pytest.mark.parametrize("name", CLAMPS)
def test_an_activation_both_ways(name: str, program: Path, tmp_path: Path) -> None:
    check_activation(name, program, tmp_path)
