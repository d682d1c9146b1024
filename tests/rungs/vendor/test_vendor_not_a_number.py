"""The vendor rung's own loops on the CPU, and its kernels compiled for the CPU (tests/support/host_cuda): what
they make of numbers that are none is what torch makes of them."""

from pathlib import Path

import pytest
from counter import run_compiler
from not_a_number import CLAMPS, LAYOUTS, SPOILT, check_activation, check_pooling

from tare.rungs.native.build import SOURCES

HERE = Path(__file__).parents[1] / "support"
NO_GPU = [f"-I{HERE / 'host_cuda'}", f"-I{HERE / 'host_libraries'}"]
PROGRAMS = {
    # As the real one is built: what the compiler makes of a comparison with NaN is part of the question.
    "loops": ["-O3", "-march=native", str(HERE / "cpu_calls.cpp"), "-pthread"],
    "kernels": [*NO_GPU, "-x", "c++", str(HERE / "cuda_calls.cu")],
}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("calls") / "program"
    run_compiler(f"-I{SOURCES}", *PROGRAMS[request.param], "-o", str(made))
    return made


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spoil", SPOILT)
def test_a_maximum_and_its_place_are_those_of_torch(
    spoil: tuple[float, ...], layout: str, program: Path, tmp_path: Path
) -> None:
    check_pooling(spoil, layout, program, tmp_path)


@pytest.mark.parametrize("name", CLAMPS)
def test_a_nan_passes_an_activation_both_ways(name: str, program: Path, tmp_path: Path) -> None:
    check_activation(name, program, tmp_path)
