"""Every operator of the vendor rung on a GPU, beside float64: the modules that tests/native proves on the CPU."""

from pathlib import Path

import pytest
from small_modules import ACTIVATIONS, FIRST_LAYERS, IMAGE, MODULES, Recurrent, activating, on_colours
from small_step import prove
from torch import nn

from tare.cases.case import Mode, Precision
from tare.rungs.native.build import executable


@pytest.mark.parametrize("layout", ["contiguous", "channels-last"])
@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("name", MODULES)
def test_on_images(name: str, mode: Mode, layout: str, tmp_path: Path) -> None:
    program = executable("tare-vendor-cuda")
    parity = prove(MODULES[name], IMAGE, mode, layout, tmp_path, program, device="cuda")
    assert parity.status == "same", parity


@pytest.mark.parametrize("precision", ["fp32", "bf16", "amp-bf16"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_in_packs(name: str, precision: Precision, tmp_path: Path) -> None:
    def make() -> nn.Module:
        return activating(ACTIVATIONS[name], 16)

    program = executable("tare-vendor-cuda")
    parity = prove(make, (16, 9, 7), "train", "channels-last", tmp_path, program, precision, "cuda")
    assert parity.status == "same", parity


@pytest.mark.parametrize("precision", ["bf16", "amp-bf16"])
@pytest.mark.parametrize("layer", FIRST_LAYERS)
def test_pixels_become_channels(layer: tuple[int, int, int], precision: Precision, tmp_path: Path) -> None:
    program = executable("tare-vendor-cuda")
    parity = prove(
        lambda: on_colours(*layer), (3, 27, 22), "train", "channels-last", tmp_path, program, precision, "cuda"
    )
    assert parity.status == "same", parity


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_two_recurrent_layers(mode: Mode, tmp_path: Path) -> None:
    program = executable("tare-vendor-cuda")
    parity = prove(Recurrent, IMAGE, mode, "contiguous", tmp_path, program, device="cuda")
    assert parity.status == "same", parity
