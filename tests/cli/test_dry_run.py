"""What a run would measure, said before anything is."""

import json
from pathlib import Path

from commandline import tare

PLAN = """
[options]
rounds = 2
budget = 3

[[grid]]
workload = ["mlp", "lstm"]
rung = ["eager", "torchscript", "cudagraph"]
device = "cpu"
"""


def test_it_names_the_ladders_and_what_is_skipped_and_leaves_nothing(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    home = tmp_path / "home"
    done = tare(home, "run", str(plan), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("  eager, torchscript\n") == 2
    assert "2 skipped" in done.stdout
    assert "CUDA graphs need a CUDA device" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last == "4 cases in 2 ladders, 2 rounds each: at most 12 s of sampling besides preparing"
    assert not list(home.rglob("*.db"))


def test_what_has_a_record_would_not_be_measured_again(tmp_path: Path) -> None:
    case = ("run", "mlp", "--rung", "eager", "--device", "cpu", "--quick", "--smoke")
    assert tare(tmp_path, *case).returncode == 0
    found = json.loads(
        tare(tmp_path, *case[:3], "eager,torchscript", *case[4:], "--dry-run", "--recorded", "--json").stdout
    )
    assert [key.split("/")[1] for key in found["cases"]] == ["eager", "torchscript"]
    assert (found["due"], found["recorded"]["taken"]) == (1, 1)
    assert found["sampling_s"] == 1.5


def test_a_batch_that_is_to_be_found_is_said_to_be(tmp_path: Path) -> None:
    done = tare(tmp_path, "run", "mlp", "--rung", "eager", "--device", "cpu", "--batch", "auto", "--dry-run")
    assert "mlp · infer · cpu · fp32 · batch to be found · " in done.stdout
    assert "besides searching and preparing" in done.stdout


def test_what_an_interrupted_run_has_measured_is_not_known(tmp_path: Path) -> None:
    done = tare(tmp_path, "run", "mlp", "--dry-run", "--resume")
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "tare: --dry-run does not know what an interrupted run has measured: leave out --resume"
    )
