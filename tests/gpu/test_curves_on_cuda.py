"""Fifty training steps on scikit-learn's digits on a GPU: every native rung that trains, and the Python ones
beside."""

from operator import attrgetter

import pytest
from curves import STEPS, digits_of, native_cases, training_case

from tare.cases.case import Case, Precision
from tare.cases.options import Options
from tare.execute.curves import follow_curve
from tare.execute.executor import LocalExecutor

pytest.importorskip("sklearn")
OPTIONS = Options(rounds=1, timeout=600)
# How many of the steps must decide something: a chaotic training (docs/vendor.md) leaves eager itself behind.
DECIDED = {"resnet50": 5}


def follow(executor: LocalExecutor, case: Case) -> None:
    curve = follow_curve(executor, case, digits_of(executor, case), OPTIONS)
    assert curve.failure is None, curve.failure
    assert len(curve.losses) == STEPS
    assert curve.parity.status == "same", curve.parity
    assert curve.parity.compared >= DECIDED.get(case.workload, STEPS), curve.parity


@pytest.mark.parametrize(
    "case",
    # By workload: those that share a reference follow one another in one process.
    sorted(native_cases(device="cuda"), key=attrgetter("workload")),
    ids=lambda case: f"{case.rung}-{case.workload}",
)
def test_the_losses_are_those_of_float64(executor: LocalExecutor, case: Case) -> None:
    follow(executor, case)


@pytest.mark.parametrize("rung", ["libtorch", "vendor:graph"])
@pytest.mark.parametrize("precision", ["tf32", "bf16", "amp-bf16"])
def test_low_precision(executor: LocalExecutor, precision: Precision, rung: str) -> None:
    follow(executor, training_case("mnist_cnn", rung, device="cuda", precision=precision))


@pytest.mark.parametrize("rung", ["eager", "compile", "compile:reduce-overhead", "cudagraph"])
def test_rungs_in_python(executor: LocalExecutor, rung: str) -> None:
    follow(executor, training_case("mnist_cnn", rung, device="cuda"))
