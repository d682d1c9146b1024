"""The OpenVINO rung: what it refuses, and what it computes in an environment that has OpenVINO."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from framework_environments import run_tests_in
from proof import make

from tare.cases.case import Case
from tare.rungs import get_rung
from tare.workloads import get_workload

INSIDE = Path(__file__).with_name("openvino_in_environment.py")


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_it_computes_the_same_in_its_environment() -> None:
    done = run_tests_in("openvino", INSIDE)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (make("mlp", "openvino", "train"), "inference only"),
        (make("mlp", "openvino", "infer", device="cuda"), "on the CPU"),
        (make("mlp", "openvino", "infer", "bf16"), "fp32 or amp-bf16"),
    ],
)
def test_what_it_cannot_do_has_a_reason(case: Case, reason: str) -> None:
    assert reason in str(get_rung("openvino").supports(case, get_workload(case.workload)))


def test_not_installed_is_not_available_and_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tare.rungs.frameworks.onnx.openvino.find_spec",
        lambda name: None if name == "openvino" else find_spec(name),
    )
    missing = get_rung("openvino").available("cpu")
    assert missing is not None
    assert missing.remedy == "tare env create openvino"
