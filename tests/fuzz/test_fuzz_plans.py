"""Damaged plans: each is either still valid or refused in one line. No other exception escapes."""

import os
import random
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from catalogues import FakeCatalogue
from mutate import damaged_bytes, damaged_document, odd_values, refuses

from tare.cases import plan as plan_module
from tare.cases.case import Case
from tare.cases.options import make_options
from tare.cases.plan import Plan, expand_plan, fingerprint, make_plan, read_plan

PLAN = b"""
name = "nightly"
[options]
rounds = 5
budget = 3.5
width = 0.02
timeout = 60
isolation = "spawn"
memory = 2_000_000
parity = false
[[grid]]
workload = ["mlp", "cnn"]
rung = ["eager", "compile:max"]
mode = ["infer", "train"]
device = ["auto", "cuda:1"]
precision = "bf16"
batch = [1, 32]
feed = "device"
layout = ["contiguous", "channels-last"]
optimizer = ["sgd", "adam"]
threads = 2
[grid.size]
width = [8, 16]
depth = 3
[[exclude]]
rung = "compile:max"
batch = 1
size.width = 8
[[include]]
workload = "mlp"
batch = 7
"""


@pytest.fixture(autouse=True)
def small_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "MOST_CASES", 300)


def used(plan: Plan) -> None:
    """Does everything that a run does with a plan before it measures."""
    options = make_options({**plan.options}, f"the options of {plan.where}")
    found = expand_plan(plan, FakeCatalogue())
    assert len(set(found.cases)) == len(found.cases)
    assert all(Case.parse(case.key) == case for case in found.cases)
    assert len(fingerprint(found.cases, options.identity)) == 16


def test_the_plan_itself_is_valid() -> None:
    used(make_plan(tomllib.loads(PLAN.decode()), "x"))


@pytest.mark.parametrize("seed", range(4))
def test_damaged_text(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "bad.toml"
    refused = 0
    for _ in range(300):
        path.write_bytes(damaged_bytes(chance, PLAN))
        refused += refuses(lambda: used(read_plan(path)))
    assert 0 < refused < 300, "damage that is always or never detected tests nothing"


@pytest.mark.parametrize("seed", range(4))
def test_damaged_values(seed: int) -> None:
    chance = random.Random(seed)
    whole = tomllib.loads(PLAN.decode())
    odd = odd_values(toml=True)
    refused = 0
    for _ in range(300):
        document = damaged_document(chance, whole, odd)
        refused += refuses(lambda each: used(make_plan(each, "bad.toml")), document)
    assert 0 < refused < 300


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[[grid]\n\xff", "is not TOML"),
        (b"[[grid]]\nworkload = 'no\\nsuch'", "unknown workload"),
    ],
)
def test_the_command_refuses_a_bad_plan_in_one_line(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "tare", "run", str(path), "--store", str(tmp_path / "x.db")],
        env=os.environ | {"TARE_HOME": str(tmp_path)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("tare: ")
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
