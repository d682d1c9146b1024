"""The commands tare prove and tare frames. tests/execute/test_call_stacks.py tests the frame counter."""

import json
from pathlib import Path

import pytest
from commandline import tare


@pytest.mark.full
def test_prove_prints_a_table_that_fits(tmp_path: Path) -> None:
    done = tare(tmp_path, "prove", "mlp", "--rung", "eager,aot", "--device", "cpu", "--steps", "3")
    assert done.returncode == 0, done.stderr
    assert "3 training steps on digits" in done.stdout
    row = next(line for line in done.stdout.splitlines() if line.startswith("eager"))
    assert row.split()[-1] == "same"
    assert "AOTInductor compiles inference only" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.full
def test_prove_as_json_has_every_loss(tmp_path: Path) -> None:
    done = tare(tmp_path, "prove", "mlp", "--rung", "torchscript", "--device", "cpu", "--steps", "3", "--json")
    assert done.returncode == 0, done.stderr
    (curve,) = json.loads(done.stdout)["curves"]
    assert len(curve["losses"]) == len(curve["reference"]) == len(curve["errors"]) == 3
    assert curve["losses"] == pytest.approx(curve["reference"], rel=1e-4)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("prove", "mlp", "--size", "features=63", "--rung", "eager", "--device", "cpu"), "features=64"),
        (("prove", "mlp", "--data", "faces"), "digits"),
        (("prove", "mlp", "--steps", "0"), "--steps"),
        (("prove", "nothing"), "unknown workload"),
        (("frames", "nothing"), "unknown workload"),
        (("frames", "mlp", "--rung", "nothing"), "unknown rung"),
        (("frames", "mlp", "--mode", "train", "--cost"), "--cost times inference"),
        (("frames", "mlp", "--rounds", "0"), "rounds"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    done = tare(tmp_path, *args)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
