"""Groups, smoke sizes, searched batches, coverage and workloads in full, as a user meets them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commandline import planted_tare as tare
from commandline import tare as plain_tare

PLAN = """
options = {rounds = 1, budget = 0.2}
[[grid]]
workload = ["mlp", "@faulty"]
rung = ["eager", "torchscript"]
device = "cpu"
threads = 1
smoke = true
"""
SHORT = ("--device", "cpu", "--threads", "1", "--rounds", "1", "--budget", "0.2")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def document(done: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.mark.full
def test_a_plan_mixes_groups_and_names_and_ends_with_the_suite(home: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    found = document(tare(home, "run", str(plan), "--json"), code=1)
    cases = [(r["case"]["workload"], r["case"]["rung"], r["case"]["batch"]) for r in found["records"]]
    assert cases == [
        (name, rung, batch)
        for name, batch in (("mlp", 8), ("planted_raise", 4))
        for rung in ("eager", "torchscript")
    ]
    (suite,) = found["suites"]
    assert (suite["speedup"]["n"], suite["speedup"]["m"]) == (1, 2)
    assert "a planted mistake" in suite["missed"][0]["cause"]
    text = tare(home, "show", "--table").stdout
    assert "geometric mean over 1 of 2 workloads" in text
    assert "2 of 4 measured" in text


@pytest.mark.full
def test_a_group_is_quick_on_eager_alone(home: Path) -> None:
    found = document(tare(home, "run", "@tiny", "--smoke", "--quick", *SHORT[:4], "--budget", "0.2", "--json"))
    (record,) = found["records"]
    assert (record["case"]["rung"], record["parity"]["reason"]) == ("eager", "not asked for")
    assert record["case"]["sizes"] == {"width": 2}


@pytest.mark.full
def test_a_searched_batch_is_one_for_the_ladder(home: Path) -> None:
    rungs = ("--rung", "eager,torchscript")
    found = document(tare(home, "run", "planted_tiny", *rungs, "--batch", "auto", *SHORT, "--no-parity", "--json"))
    batches = {record["case"]["batch"] for record in found["records"]}
    eager, script = found["records"]
    assert batches == {eager["search"]["chosen"]}
    assert script["search"] is None
    assert len(eager["search"]["points"]) >= 3
    assert found["planned"] == 2


@pytest.mark.full
def test_coverage_counts_and_lists_what_failed(home: Path) -> None:
    found = document(tare(home, "coverage", "mlp", "planted_raise", "--json"), code=1)
    entries = {entry["workload"]: entry for entry in found["workloads"]}
    assert entries["mlp"]["modes"] == ["infer", "train"]
    assert "torch.nn.functional.linear" in entries["mlp"]["covered"]["api"]
    assert {"aten::addmm", "aten::mm"} <= set(entries["mlp"]["covered"]["core"])
    assert "a planted mistake" in entries["planted_raise"]["failures"]["infer"]
    assert "no loss" in entries["planted_raise"]["skipped"]["train"]
    assert found["registries"]["core"] < found["registries"]["aten"]
    assert found["ratio"] is None


@pytest.mark.full
def test_coverage_names_the_device_that_was_chosen(home: Path) -> None:
    found = document(tare(home, "coverage", "planted_tiny", "--device", "all", "--json"))
    assert "cpu" in found["device"].split(" and ")


@pytest.mark.full
def test_a_workload_in_full(home: Path) -> None:
    found = document(tare(home, "show", "workload", "planted_tiny", "--json"))
    assert found["inspected"]["parameters"] == 32 * 32 + 32
    assert found["inspected"]["infer"]["total"] == 2 * 4 * 32 * 32
    assert found["smoke"] == {"batch": 4, "width": 2}


BAD = [
    (("run", "@visoin"), "@vision"),
    (("run", "mlp", "@"), "@zoo"),
    (("run", "mlp", "--batch", "auto,4"), "auto alone"),
    (("coverage", "@nothing"), "@zoo"),
    (("coverage", "mlpp"), "'mlp'"),
    (("coverage", "mlp", "--device", "mps"), "no mps device"),
    (("list", "workloads", "--domain", "visoin"), "vision"),
    (("list", "rungs", "--domain", "vision"), "--domain"),
    (("show", "workload"), "NAME"),
    (("show", "workload", "mlpp"), "'mlp'"),
]


@pytest.mark.parametrize(("args", "named"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_one_line_and_exit_code_2(home: Path, args: tuple[str, ...], named: str) -> None:
    done = plain_tare(home, *args)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert named in done.stderr
