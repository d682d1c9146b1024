"""Transformers that are written well, at a size that fills the GPU: no rule accuses them above "low"."""

from pathlib import Path

import pytest
import torch
from record_inefficiencies import gross_ns, profiled
from well_made import WELL_MADE, Scale

from tare.execute.executor import LocalExecutor
from tare.execute.peaks import measure_peaks
from tare.findings.context import Context
from tare.findings.finding import find
from tare.trace.read import read

pytestmark = pytest.mark.alone
# One token a step never fills a GPU: as a step of its own it is bound by its launches.
LAUNCH_BOUND = {"llama-decoding"}


@pytest.fixture(scope="module")
def rates(executor: LocalExecutor) -> dict[str, float]:
    found = measure_peaks(executor, "cuda", executor.probe().environment, rounds=1)
    return {peak.name: peak.value for peak in found.peaks}


@pytest.mark.parametrize("name", WELL_MADE)
def test_well_made_transformers_are_left_alone(name: str, rates: dict[str, float], tmp_path: Path) -> None:
    torch.manual_seed(0)
    scale = Scale(
        batch=32, length=1024, width=1024, heads=16, words=32_000, depth=4, device="cuda", kind=torch.bfloat16
    )
    step = WELL_MADE[name](scale)
    gross_s = gross_ns([step])[0] / 1e9
    path = tmp_path / "trace.json"
    profiled(step, 4, stack=False).export_chrome_trace(str(path))
    accused = {f.rule: f.summary for f in find(Context(read(path), gross_s, rates)) if f.severity != "low"}
    assert set(accused) <= ({"launch-bound"} if name in LAUNCH_BOUND else set()), accused
