"""Rungs that do not do their work in timed steps, and models that change flags: none of them gets a ratio."""

import json
from typing import Any

import pytest
from commandline import planted_tare

pytestmark = pytest.mark.full
PLAN = """
[options]
rounds = 1
budget = 0.5
timeout = 60

[[grid]]
workload = ["mlp"]
rung = ["eager", {cheats}]
device = "cpu"

[[grid]]
workload = ["mlp"]
rung = ["eager", "cheat:three"]
mode = "train"
device = "cpu"
threads = 1

[[grid]]
workload = ["planted_tf32", "planted_borrowed_tf32", "planted_dtype", "planted_threads", "planted_identity"]
rung = ["eager"]
device = "cpu"
threads = 2

[[grid]]
workload = ["planted_zeros"]
rung = ["eager", "wrong_weights"]
device = "cpu"
"""
DIFFERENT = ("memo", "skip", "baked", "empty")
FAILED = {
    "thread": "unsynchronised",
    "lazy": "unsynchronised",
    "known": "memoised",
    "place": "memoised",
    "three": "memoised",
}
TRAINED = ("three",)
CHANGED = {
    "borrowed_tf32": "tf32 was changed from false to true",
    "tf32": "tf32 was changed from false to true",
    "dtype": "default_dtype was changed from float32 to float64",
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("cheats")
    plan = folder / "plan.toml"
    inferred = (*DIFFERENT, *(name for name in FAILED if name not in TRAINED), "content")
    plan.write_text(PLAN.format(cheats=", ".join(f'"cheat:{name}"' for name in inferred)))
    done = planted_tare(folder / "home", "run", str(plan), "--json", TARE_PLUGINS="planted_cheats")
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def find(outcome: dict[str, Any], workload: str, rung: str = "eager") -> dict[str, Any]:
    case = {"workload": workload, "rung": rung}
    return next(r for r in outcome["records"] if case.items() <= r["case"].items())


def row(outcome: dict[str, Any], workload: str, rung: str) -> dict[str, Any]:
    ladder = next(ladder for ladder in outcome["ladders"] if ladder["case"]["workload"] == workload)
    return next(row for row in ladder["rows"] if row["rung"] == rung)


def test_the_honest_rung_is_the_same(outcome: dict[str, Any]) -> None:
    assert find(outcome, "mlp")["parity"]["status"] == "same"


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_rung_that_does_not_work_in_timed_steps_is_different(outcome: dict[str, Any], name: str) -> None:
    assert find(outcome, "mlp", f"cheat:{name}")["parity"]["status"] == "different"
    assert row(outcome, "mlp", f"cheat:{name}")["speedup_over_eager"] is None


@pytest.mark.parametrize("name", FAILED)
def test_a_rung_whose_time_is_not_that_of_its_work_fails(outcome: dict[str, Any], name: str) -> None:
    assert find(outcome, "mlp", f"cheat:{name}")["failure"]["cause"] == FAILED[name]


def test_a_rung_that_looks_results_up_is_timed_where_it_works(outcome: dict[str, Any]) -> None:
    """A step on a new batch takes 3 ms, and so every block has one step. Where blocks have several (on a GPU), the
    audit compares steps with and without a new batch (tests/worker/test_evidence.py)."""
    (round_,) = find(outcome, "mlp", "cheat:content")["rounds"]
    pipelined = next(series for series in round_["series"] if series["kind"] == "pipelined")
    assert min(wall / n for wall, n in zip(pipelined["wall_ns"], pipelined["steps"], strict=True)) > 2.9e6


@pytest.mark.parametrize("name", CHANGED)
def test_a_case_whose_precision_was_changed_fails(outcome: dict[str, Any], name: str) -> None:
    failure = find(outcome, f"planted_{name}")["failure"]
    assert failure["cause"] == "precision-changed"
    assert CHANGED[name] in failure["message"]


def test_a_record_has_the_threads_that_the_steps_had(outcome: dict[str, Any]) -> None:
    record = find(outcome, "planted_threads")
    assert record["failure"] is None
    assert record["environment"]["flags"]["threads"] == "1"
    assert "threads was changed from 2 to 1 by the model or its rung" in record["rounds"][0]["notes"]


def test_a_step_without_an_operator_is_refused(outcome: dict[str, Any]) -> None:
    assert find(outcome, "planted_identity")["failure"]["cause"] == "no-work"


def test_a_special_batch_does_not_hide_wrong_weights(outcome: dict[str, Any]) -> None:
    assert find(outcome, "planted_zeros")["parity"]["status"] == "same"
    assert find(outcome, "planted_zeros", "wrong_weights")["parity"]["status"] == "different"
