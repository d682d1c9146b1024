"""Cases prepared side by side on one GPU: measured one at a time, and holding what they hold alone."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
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


def test_cases_abreast_have_the_gpu_one_at_a_time(tmp_path: Path) -> None:
    beside = measure(tmp_path / "abreast", "--abreast", "6")
    assert len(beside) == 6
    spans = sorted(
        (series["at_ns"][0], series["at_ns"][-1] + series["wall_ns"][-1])
        for done in beside.values()
        for series in done["series"]
    )
    assert all(high <= low for (_, high), (low, _) in itertools.pairwise(spans))
    assert {done["telemetry"]["other_gpu_processes"] for done in beside.values()} == {0}
    alone = measure(tmp_path / "alone")
    # What the allocator gave out, and what a step launches: the same whoever else is there.
    for name, done in beside.items():
        assert done["device_memory"]["allocated_peak"] == alone[name]["device_memory"]["allocated_peak"], name
        assert done["kernels"] == alone[name]["kernels"], name
