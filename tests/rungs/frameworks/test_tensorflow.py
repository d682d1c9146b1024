"""The TensorFlow rung: what it refuses, and what it computes in an environment that has TensorFlow."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from commandline import planted_tare
from framework_environments import environment, run_tests_in
from proof import make

from tare.cases.case import Case
from tare.rungs import get_rung
from tare.workloads import get_workload

INSIDE = Path(__file__).with_name("tensorflow_in_environment.py")


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_it_computes_the_same_in_its_environment() -> None:
    done = run_tests_in("tensorflow", INSIDE)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_missing_wait_is_caught(tmp_path: Path) -> None:
    run = ("run", "mlp", "--device", "cpu", "--batch", "64", "--size", "width=512", "--size", "depth=6", "--quick")
    there = ("--env", f"tensorflow={environment('tensorflow')}")
    done = planted_tare(
        tmp_path, *run, "--no-parity", "--rung", "tensorflow-hasty", *there, TARE_PLUGINS="hasty_tensorflow"
    )
    assert done.returncode != 0
    assert "unsynchronised in audit" in done.stdout


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_one_ladder_over_three_frameworks_and_its_table_of_kernels(tmp_path: Path) -> None:
    rungs = "eager,jax,tensorflow:mode0,tensorflow:mode1"
    sizes = ("--size", "hidden=16,32", "--size", "input=16", "--size", "steps=4", "--batch", "4")
    run = ("run", "lstm", "--device", "cpu", "--quick", "--rounds", "1", "--budget", "0.3", "--json")
    there = ("--env", f"tensorflow={environment('tensorflow')}")
    done = planted_tare(tmp_path, *run, *sizes, "--rung", rungs, *there)
    ladders = json.loads(done.stdout)["ladders"]
    assert len(ladders) == 2
    for ladder in ladders:
        assert [row["parity"] for row in ladder["rows"]] == ["same"] * 4, ladder
    exported = planted_tare(tmp_path, "export", "--format", "mpe")
    # Six pairs of four rungs, each at two points.
    rows = [line.split(" | ") for line in exported.stdout.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 6, exported.stderr
    assert {row[4] for row in rows} == {"2"}


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (make("mlp", "tensorflow", "train", "amp-fp16"), "loss scaling"),
        (make("mlp", "tensorflow", "train", optimizer="adam"), "epsilon"),
        (make("mlp", "tensorflow:mode1", "infer"), "implementation of the LSTM"),
        (make("mlp", "tensorflow", "infer", device="mps"), "CUDA devices"),
        (make("mlp", "tensorflow", "infer", device="cuda", feed="pinned"), "--feed device"),
        (Case(workload="alexnet", rung="tensorflow", batch=1), "written for lstm"),
    ],
)
def test_what_it_cannot_do_has_a_reason(case: Case, reason: str) -> None:
    assert reason in str(get_rung("tensorflow").supports(case, get_workload(case.workload)))


def test_not_installed_is_not_available_and_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tare.rungs.frameworks.tensorflow.rung.find_spec",
        lambda name: None if name == "tensorflow" else find_spec(name),
    )
    missing = get_rung("tensorflow").available("cpu")
    assert missing is not None
    assert missing.remedy == "tare env create tensorflow"
