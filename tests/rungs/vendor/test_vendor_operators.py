"""Every operator of the vendor rung on the CPU, compared with float64: outputs, losses and every gradient.

All modules are branches of one network: one export, one plan and one process of the executable per test. The
branch is part of the names of the arrays that parity compares."""

from functools import partial
from pathlib import Path

import pytest
from small_modules import ACTIVATIONS, IMAGE, MODULES, Parallel, Recurrent, activation_everywhere
from small_step import prove

from tare.cases.case import Mode
from tare.rungs.native.build import executable


def build() -> Parallel:
    activations = {name: partial(activation_everywhere, make) for name, make in ACTIVATIONS.items()}
    return Parallel({**MODULES, **activations, "lstm": Recurrent})


@pytest.mark.parametrize("layout", ["contiguous", pytest.param("channels-last", marks=pytest.mark.full)])
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_all_operators_compute_what_torch_computes(mode: Mode, layout: str, tmp_path: Path) -> None:
    # The mean over all branches makes gradients small. At a small rate their updates would drown in rounding.
    parity = prove(build, IMAGE, mode, layout, tmp_path, executable("tare-vendor-cpu"), learning_rate=5.0)
    assert parity.status == "same", parity
    assert parity.compared > len(MODULES)
    assert parity.undecided == 0, parity
