"""The OpenVINO rung computes what the float64 reference computes. Run by test_openvino.py, in the environment that
has OpenVINO."""

from pathlib import Path

import pytest
from proof import SMALL, TRANSFORMER, check, make

from tare.errors import TareError
from tare.rungs import get_rung
from tare.rungs.frameworks.onnx import openvino
from tare.workloads import get_workload


@pytest.mark.parametrize("workload", [*SMALL, *TRANSFORMER])
def test_same_as_the_reference(workload: str, tmp_path: Path) -> None:
    parity = check(make(workload, "openvino", "infer"), tmp_path)
    assert parity.status == "same", parity
    assert parity.compared >= 3
    assert parity.error is not None
    assert parity.error < 1e-5, "computed in bfloat16, OpenVINO's own choice where the processor has it"


def test_a_result_that_is_off_is_different(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = openvino.OpenVinoProgram.arrays
    monkeypatch.setattr(
        openvino.OpenVinoProgram, "arrays", lambda s, r: [values * 1.01 for values in arrays(s, r)]
    )
    assert check(make("mlp", "openvino", "infer"), tmp_path).status == "different"


def test_bfloat16_where_the_processor_has_it_and_a_reason_where_not(tmp_path: Path) -> None:
    case = make("mnist_cnn", "openvino", "infer", "amp-bf16")
    if "BF16" in openvino._core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        assert check(case, tmp_path).status == "same"
        return
    with pytest.raises(TareError, match="no bfloat16"):
        get_rung("openvino").prepare(get_workload("mnist_cnn"), case)


def test_every_batch_gives_its_own_result() -> None:
    program = get_rung("openvino").prepare(get_workload("mlp"), make("mlp", "openvino", "infer"))
    sums = []
    for batch in (0, 1, 0):
        program.select(batch)
        sums.append(program.checksum(program.step()))
    assert sums[0] == sums[2] != sums[1]
