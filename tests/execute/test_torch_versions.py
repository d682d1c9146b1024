"""Two versions of torch in one ladder: interleaved rounds, parity with one reference, and a difference found."""

import json
from pathlib import Path

import pytest
from commandline import planted_tare
from framework_environments import environment

from tare.execute.environments import installed

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(3600)]

# Its build for CUDA uses the libraries of CUDA that the pinned torch has: hundreds of megabytes less to download.
OTHER = "2.9.1"


def test_two_versions_are_interleaved_and_a_planted_difference_is_found(tmp_path: Path) -> None:
    there = ("--env", f"torch=={OTHER}={environment(f'torch=={OTHER}')}")
    rungs = f"eager,eager@{OTHER},planted_offset@{OTHER}"
    run = ("run", "mlp", "--smoke", "--mode", "infer,train", "--device", "cpu", "--rounds", "2", "--json")
    done = planted_tare(tmp_path, *run, "--budget", "0.4", "--rung", rungs, *there)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    for ladder in document["ladders"]:
        parity = {row["rung"]: row["parity"] for row in ladder["rows"]}
        assert parity == {"eager": "same", f"eager@{OTHER}": "same", f"planted_offset@{OTHER}": "different"}
    versions = {
        record["case"]["rung"]: record["rounds"][0]["packages"]["torch"].partition("+")[0]
        for record in document["records"]
    }
    assert versions["eager"] == installed("torch")
    assert versions[f"eager@{OTHER}"] == OTHER
    # Rounds of the two versions alternate: neither has both of its rounds before the other.
    began = sorted(
        (round_["started"], record["case"]["rung"])
        for record in document["records"]
        if record["case"]["mode"] == "infer"
        for round_ in record["rounds"]
        if record["case"]["rung"] in ("eager", f"eager@{OTHER}")
    )
    order = [rung for _, rung in began]
    assert len(set(order[:2])) == 2


def test_a_version_is_checked_against_another_side_by_side(tmp_path: Path) -> None:
    """The two versions call the same operators for a perceptron."""
    there = ("--env", f"torch=={OTHER}={environment(f'torch=={OTHER}')}", "--baseline-python", f"torch=={OTHER}")
    run = (
        "check",
        "mlp",
        "--rung",
        "eager",
        "--device",
        "cpu",
        "--metric",
        "operators",
        "--rounds",
        "2",
        "--json",
    )
    done = planted_tare(tmp_path, *run, "--budget", "0.2", *there)
    report = json.loads(done.stdout)
    assert any(f"torch: {OTHER}" in difference for difference in report["compared"]), report["compared"]
    assert done.returncode == 0, done.stderr
