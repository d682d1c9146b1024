"""Every operator of the vendor rung on the CPU, beside float64: outputs, losses and every gradient, in both
layouts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_modules import ACTIVATIONS, IMAGE, MODULES, Features, Recurrent, activating
from small_step import prove

from tare.cases.case import Mode
from tare.rungs.native.build import executable


def same(make: Callable[[], Any], shape: tuple[int, ...], mode: Mode, layout: str, folder: Path) -> None:
    parity = prove(make, shape, mode, layout, folder, executable("tare-vendor-cpu"))
    assert parity.status == "same", parity
    assert parity.undecided == 0


@pytest.mark.parametrize("layout", ["contiguous", "channels-last"])
@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("name", MODULES)
def test_on_images(name: str, mode: Mode, layout: str, tmp_path: Path) -> None:
    same(MODULES[name], IMAGE, mode, layout, tmp_path)


@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_behind_everything_that_can_do_it_itself(name: str, mode: Mode, tmp_path: Path) -> None:
    same(lambda: activating(ACTIVATIONS[name]), IMAGE, mode, "channels-last", tmp_path)


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_features_side_by_side(mode: Mode, tmp_path: Path) -> None:
    same(Features, (6,), mode, "contiguous", tmp_path)


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_two_recurrent_layers(mode: Mode, tmp_path: Path) -> None:
    same(Recurrent, IMAGE, mode, "contiguous", tmp_path)
