"""The CUDA program's own kernels, compiled for the CPU (tests/support/host_cuda): their indices and arithmetic
beside float64. What a GPU adds, cuDNN, cuBLAS and time, is for tests/gpu."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from counter import run_compiler
from small_modules import ACTIVATIONS, FIRST_LAYERS, IMAGE, MODULES, Features, activating, on_colours
from small_step import prove
from torch import nn

from tare.cases.case import Mode, Precision
from tare.rungs.native.build import SOURCES, build_key
from tare.rungs.native.libraries import blas
from tare.system.home import home_folder

HERE = Path(__file__).parents[1] / "support" / "host_cuda"
# In the place of cuDNN and cuBLASLt.
LIBRARIES = HERE.with_name("host_libraries")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = blas()
    if library is None:
        pytest.skip("no OpenBLAS beside SciPy here")
    # Kept, as the programs that tare builds are: it takes half a minute, and its key says when it is stale.
    made = home_folder("native") / f"host-cuda-{key(library)}"
    if made.exists():
        return made
    unfinished = tmp_path_factory.mktemp("host_cuda") / "program"
    links = [str(library), "-pthread", "-Wl,--allow-shlib-undefined", f"-Wl,-rpath,{library.parent}"]
    includes = [f"-I{folder}" for folder in (HERE, LIBRARIES, SOURCES)]
    run_compiler("-O1", *includes, str(HERE / "program.cpp"), *links, "-o", str(unfinished))
    # Whole or not at all, and two that make it at once do not harm each other.
    beside = made.with_name(f"{made.name}.{os.getpid()}")
    shutil.copy(unfinished, beside)
    beside.replace(made)
    return made


def key(library: Path) -> str:
    """Of all that decides what the compiler makes: this file has its flags, and `build_key` the compiler."""
    digest = hashlib.sha256(f"{library} {build_key('vendor/cpu')}".encode() + Path(__file__).read_bytes())
    for folder in (HERE, LIBRARIES, SOURCES):
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def test_everything_keeps_to_the_order_of_the_stream() -> None:
    """A plain copy or fill is still under way when it returns, and the step's stream would run beside it: what was
    uploaded, or a library's workspace, changed under kernels that were using it."""
    plain = ("cudaMemcpy(", "cudaMemset(")
    sources = [path for path in (SOURCES / "vendor" / "cuda").iterdir() if path.suffix in (".cu", ".cuh")]
    assert len(sources) > 10
    assert [path.name for path in sources if any(call in path.read_text() for call in plain)] == []


def same(
    make: Callable[[], Any],
    mode: Mode,
    layout: str,
    folder: Path,
    program: Path,
    shape: tuple[int, ...] = IMAGE,
    precision: Precision = "fp32",
) -> None:
    parity = prove(make, shape, mode, layout, folder, program, precision)
    assert parity.status == "same", parity
    assert parity.compared > 0


def wide() -> nn.Module:
    """Channels by eights, as tensor cores like them, behind three colours; rows that no block divides."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        activating(nn.Hardswish, 16)[:6],
        nn.AvgPool2d(2),
        nn.Conv2d(16, 24, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 10),
    )


@pytest.mark.parametrize("layout", ["contiguous", "channels-last"])
@pytest.mark.parametrize("name", MODULES)
def test_an_operator_trains(name: str, layout: str, tmp_path: Path, program: Path) -> None:
    same(MODULES[name], "train", layout, tmp_path, program)


@pytest.mark.parametrize("channels", [6, 8])
@pytest.mark.parametrize("name", ["relu6", "hardswish"])
def test_an_activation_alone_and_in_packs(name: str, channels: int, tmp_path: Path, program: Path) -> None:
    def make() -> nn.Module:
        return activating(ACTIVATIONS[name], channels)

    same(make, "train", "channels-last", tmp_path, program, (channels, 5, 7))


@pytest.mark.parametrize("precision", ["bf16", "amp-bf16"])
def test_bounds_that_bfloat16_rounds(precision: Precision, tmp_path: Path, program: Path) -> None:
    """0.7 is rounded to less: what was cut off there must not look as if it lay between the bounds."""

    def make() -> nn.Module:
        return activating(ACTIVATIONS["hardtanh"], 16)

    same(make, "train", "channels-last", tmp_path, program, (16, 9, 7), precision)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "amp-bf16"])
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_a_network(mode: Mode, precision: Precision, tmp_path: Path, program: Path) -> None:
    same(wide, mode, "channels-last", tmp_path, program, (3, 23, 21), precision)


@pytest.mark.parametrize("layer", FIRST_LAYERS)
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_pixels_become_channels(mode: Mode, layer: tuple[int, int, int], tmp_path: Path, program: Path) -> None:
    same(lambda: on_colours(*layer), mode, "channels-last", tmp_path, program, (3, 27, 22), "amp-bf16")


class Bottleneck(nn.Module):  # type: ignore[misc]
    """Windows of one pixel before and behind, as in ResNet-50: products, the last with a sum and ReLU."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((8, 6, 1), (6, 6, 3), (6, 8, 1))
        self.convs = nn.ModuleList(nn.Conv2d(i, o, k, padding=k // 2, bias=False) for i, o, k in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(o) for _, o, _ in sizes)

    def forward(self, x: Any) -> Any:
        y = x
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = norm(conv(y))
            y = (y if i < 2 else y + x).relu()
        return y


@pytest.mark.parametrize("precision", ["fp32", "bf16", "amp-bf16"])
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_a_window_of_one_pixel_is_a_product(
    mode: Mode, precision: Precision, tmp_path: Path, program: Path
) -> None:
    same(Bottleneck, mode, "channels-last", tmp_path, program, (8, 5, 7), precision)


def test_features_side_by_side(tmp_path: Path, program: Path) -> None:
    same(Features, "train", "contiguous", tmp_path, program, (6,))
