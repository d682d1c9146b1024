"""The CUDA program's own kernels, compiled for the CPU (tests/support/host_cuda): their indices and arithmetic
compared with float64. tests/gpu tests them on a GPU, with cuDNN and cuBLAS."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from host_program import host_program
from small_modules import (
    ACTIVATIONS,
    FIRST_LAYERS,
    IMAGE,
    MODULES,
    Parallel,
    activation_everywhere,
    first_layers,
)
from small_step import prove
from torch import nn

from tare.cases.case import Mode, Precision

# The program takes half a minute to compile.
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return host_program(tmp_path_factory.mktemp("host_cuda"))


def assert_parity(
    make: Any,
    mode: Mode,
    layout: str,
    folder: Path,
    program: Path,
    shape: tuple[int, ...] = IMAGE,
    precision: Precision = "fp32",
    learning_rate: float = 0.01,
) -> None:
    parity = prove(make, shape, mode, layout, folder, program, precision, learning_rate=learning_rate)
    assert parity.status == "same", parity
    assert parity.compared > 0


@pytest.mark.parametrize("layout", ["contiguous", "channels-last"])
def test_all_operators_train(layout: str, tmp_path: Path, program: Path) -> None:
    assert_parity(partial(Parallel, MODULES), "train", layout, tmp_path, program, learning_rate=5.0)


@pytest.mark.parametrize("channels", [6, 8])
def test_activations_with_and_without_vector_loads(channels: int, tmp_path: Path, program: Path) -> None:
    branches = {
        name: partial(activation_everywhere, ACTIVATIONS[name], channels) for name in ("relu6", "hardswish")
    }
    make = partial(Parallel, branches)
    assert_parity(make, "train", "channels-last", tmp_path, program, (channels, 5, 7))


@pytest.mark.parametrize("precision", ["bf16", "amp-bf16"])
def test_bounds_that_bfloat16_rounds(precision: Precision, tmp_path: Path, program: Path) -> None:
    """0.7 is rounded down: a clamped value must not look as if it were inside the bounds."""
    make = partial(activation_everywhere, ACTIVATIONS["hardtanh"], 16)
    assert_parity(make, "train", "channels-last", tmp_path, program, (16, 9, 7), precision)


def convolutional_network() -> nn.Module:
    """Multiples of eight channels after the first layer, as tensor cores want them, and odd image sizes."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        activation_everywhere(nn.Hardswish, 16)[:6],
        nn.AvgPool2d(2),
        nn.Conv2d(16, 24, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 10),
    )


class Bottleneck(nn.Module):  # type: ignore[misc]
    """A block of ResNet-50: its convolutions of one pixel are matrix products, the last with a sum and ReLU."""

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


PRECISIONS = [
    "amp-bf16",
    pytest.param("fp32", marks=pytest.mark.full),
    pytest.param("bf16", marks=pytest.mark.full),
]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_networks(mode: Mode, precision: Precision, tmp_path: Path, program: Path) -> None:
    for name, make, shape in (("cnn", convolutional_network, (3, 23, 21)), ("block", Bottleneck, (8, 5, 7))):
        folder = tmp_path / name
        folder.mkdir()
        assert_parity(make, mode, "channels-last", folder, program, shape, precision)


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_space_to_depth(mode: Mode, tmp_path: Path, program: Path) -> None:
    branches = {f"layer{i}": partial(first_layers, *geometry) for i, geometry in enumerate(FIRST_LAYERS)}
    make = partial(Parallel, branches)
    assert_parity(make, mode, "channels-last", tmp_path, program, (3, 27, 22), "amp-bf16")
