"""NaN and infinities in the vendor rung's own loops on the CPU, and in its kernels compiled for the CPU
(tests/support/host_cuda): the results are those of torch."""

from pathlib import Path

import pytest
from counter import run_compiler
from not_a_number import CLAMPS, LAYOUTS, SPECIAL_VALUES, check_activation, check_pooling

from tare.rungs.native.build import SOURCES

# Two programs are compiled for these tests.
pytestmark = pytest.mark.full

SUPPORT = Path(__file__).parents[2] / "support"
HOST_CUDA = [f"-I{SUPPORT / 'host_cuda'}", f"-I{SUPPORT / 'host_libraries'}"]
PROGRAMS = {
    # Built as the real one is: what the compiler makes of a comparison with NaN matters here.
    "loops": ["-O3", "-march=native", str(SUPPORT / "cpu_calls.cpp"), "-pthread"],
    "kernels": [*HOST_CUDA, "-x", "c++", str(SUPPORT / "cuda_calls.cu")],
}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("calls") / "program"
    run_compiler(f"-I{SOURCES}", *PROGRAMS[request.param], "-o", str(built))
    return built


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("special", SPECIAL_VALUES)
def test_max_pool_and_its_gradient(special: tuple[float, ...], layout: str, program: Path, tmp_path: Path) -> None:
    check_pooling(special, layout, program, tmp_path)


@pytest.mark.parametrize("name", CLAMPS)
def test_activation_and_its_gradient(name: str, program: Path, tmp_path: Path) -> None:
    check_activation(name, program, tmp_path)
