"""Every operator of the vendor rung on a GPU, compared with float64: the modules that tests/rungs/vendor checks on
the CPU."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from small_modules import (
    ACTIVATIONS,
    FIRST_LAYERS,
    IMAGE,
    MODULES,
    Recurrent,
    activation_everywhere,
    first_layers,
)
from small_step import prove

from tare.cases.case import Mode, Precision
from tare.rungs.native.build import executable


def assert_parity(
    make: Any, shape: tuple[int, ...], mode: Mode, layout: str, folder: Path, precision: Precision = "fp32"
) -> None:
    program = executable("tare-vendor-cuda")
    parity = prove(make, shape, mode, layout, folder, program, precision, device="cuda")
    assert parity.status == "same", parity


@pytest.mark.parametrize("layout", ["contiguous", "channels-last"])
@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("name", MODULES)
def test_operator(name: str, mode: Mode, layout: str, tmp_path: Path) -> None:
    assert_parity(MODULES[name], IMAGE, mode, layout, tmp_path)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "amp-bf16"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_with_vector_loads(name: str, precision: Precision, tmp_path: Path) -> None:
    make = partial(activation_everywhere, ACTIVATIONS[name], 16)
    assert_parity(make, (16, 9, 7), "train", "channels-last", tmp_path, precision)


@pytest.mark.parametrize("precision", ["bf16", "amp-bf16"])
@pytest.mark.parametrize("geometry", FIRST_LAYERS)
def test_space_to_depth(geometry: tuple[int, int, int], precision: Precision, tmp_path: Path) -> None:
    assert_parity(partial(first_layers, *geometry), (3, 27, 22), "train", "channels-last", tmp_path, precision)


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_lstm(mode: Mode, tmp_path: Path) -> None:
    assert_parity(Recurrent, IMAGE, mode, "contiguous", tmp_path)
