"""Every operator for which a kernel is generated, on the CPU, compared with float64: outputs and gradients."""

from pathlib import Path

import pytest
from fusible_modules import HALF, MODULES, ROWS
from small_modules import Parallel
from small_step import prove

from tare.cases.case import Mode, Precision
from tare.rungs.native.build import executable


@pytest.mark.parametrize("mode", [pytest.param("infer", marks=pytest.mark.full), "train"])
def test_all_modules_compute_what_torch_computes(mode: Mode, tmp_path: Path) -> None:
    # The mean over all branches makes gradients small. At a small rate their updates would drown in rounding.
    program = executable("tare-vendor-cpu")
    parity = prove(lambda: Parallel(MODULES), ROWS, mode, "contiguous", tmp_path, program, learning_rate=5.0)
    assert parity.status == "same", parity
    assert parity.compared > len(MODULES)
    assert parity.undecided == 0, parity


@pytest.mark.full
@pytest.mark.parametrize(("precision", "mode"), [("amp-bf16", "train"), ("bf16", "train"), ("fp16", "infer")])
def test_half_precisions(precision: Precision, mode: Mode, tmp_path: Path) -> None:
    chosen = {name: MODULES[name] for name in HALF}
    parity = prove(
        lambda: Parallel(chosen), ROWS, mode, "contiguous", tmp_path, executable("tare-vendor-cpu"), precision,
        learning_rate=5.0, layouts=("contiguous",),
    )  # fmt: skip
    assert parity.status == "same", parity
    assert parity.compared >= len(chosen)
