"""Cases prepared in parallel on a GPU are measured one at a time, with the memory and kernels they have alone."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from commandline import tare

pytestmark = pytest.mark.alone
CASES = ("resnet18", "lstm", "mlp", "--rung", "eager,compile", "--device", "cuda", "--smoke", "--quick")


def measure(home: Path, *options: str) -> dict[str, Any]:
    """The one round of each case."""
    done = tare(home, "run", *CASES, *options, "--json")
    assert done.returncode == 0, done.stderr
    records = json.loads(done.stdout)["records"]
    assert {record["parity"]["status"] for record in records} == {"same"}
    return {f"{record['case']['workload']} {record['case']['rung']}": record["rounds"][0] for record in records}


def test_cases_prepared_in_parallel_have_the_gpu_one_at_a_time(tmp_path: Path) -> None:
    # Tests that ran before in this process may have left it a CUDA context.
    others = 1 if torch.cuda.is_initialized() else 0
    parallel = measure(tmp_path / "parallel", "--jobs", "6")
    assert len(parallel) == 6
    spans = sorted(
        (series["at_ns"][0], series["at_ns"][-1] + series["wall_ns"][-1])
        for round_ in parallel.values()
        for series in round_["series"]
    )
    assert all(high <= low for (_, high), (low, _) in itertools.pairwise(spans))
    assert {round_["telemetry"]["other_gpu_processes"] for round_ in parallel.values()} == {others}
    alone = measure(tmp_path / "alone")
    # Allocated memory and launched kernels do not depend on other processes.
    for name, done in parallel.items():
        assert done["device_memory"]["allocated_peak"] == alone[name]["device_memory"]["allocated_peak"], name
        assert done["kernels"] == alone[name]["kernels"], name
