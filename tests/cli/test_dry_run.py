"""tare run --dry-run: what a run would measure."""

import json
from pathlib import Path

import pytest
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


def test_a_dry_run_names_ladders_and_skipped_cases_and_stores_nothing(tmp_path: Path) -> None:
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


@pytest.mark.full
def test_a_case_with_a_record_is_not_pending(tmp_path: Path) -> None:
    case = ("run", "mlp", "--rung", "eager", "--device", "cpu", "--quick", "--smoke")
    assert tare(tmp_path, *case).returncode == 0
    document = json.loads(
        tare(tmp_path, *case[:3], "eager,torchscript", *case[4:], "--dry-run", "--recorded", "--json").stdout
    )
    assert [key.split("/")[1] for key in document["cases"]] == ["eager", "torchscript"]
    assert (document["pending"], document["recorded"]["taken"]) == (1, 1)
    assert document["sampling_s"] == 1.5


@pytest.mark.full
def test_a_batch_to_be_searched_is_shown(tmp_path: Path) -> None:
    done = tare(tmp_path, "run", "mlp", "--rung", "eager", "--device", "cpu", "--batch", "auto", "--dry-run")
    assert "mlp · infer · cpu · fp32 · batch to be searched · " in done.stdout
    assert "besides searching and preparing" in done.stdout


@pytest.mark.full
def test_quick_lists_rungs_whose_executable_is_not_built(tmp_path: Path) -> None:
    case = ("run", "mnist_cnn", "--rung", "eager,libtorch:script", "--device", "cpu")
    options = ("--smoke", "--dry-run", "--json")
    quick = json.loads(tare(tmp_path, *case, *options, "--quick").stdout)
    assert [key.split("/")[1] for key in quick["cases"]] == ["eager"]
    assert [skip["reason"] for skip in quick["skipped"]] == ["not built yet: tare build"]
    complete = json.loads(tare(tmp_path, *case, *options).stdout)
    assert [key.split("/")[1] for key in complete["cases"]] == ["eager", "libtorch:script"]


def test_a_dry_run_cannot_be_resumed(tmp_path: Path) -> None:
    done = tare(tmp_path, "run", "mlp", "--dry-run", "--resume")
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "tare: --dry-run does not know what an interrupted run has measured: leave out --resume"
    )
