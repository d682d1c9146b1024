"""A step that is faster than any device: its case is not believed."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from tare.cases.case import Case
from tare.measure.parity import Reference, save_reference
from tare.measure.plausible import CPU_CORE, CPU_HERTZ, TRANSFORMED, shortest_s
from tare.worker.reference import check_parity, make_reference
from tare.workloads import get_workload

CASE = Case(workload="mlp", rung="eager", batch=8, sizes=get_workload("mlp").defaults)


def test_the_bound_is_the_flops_over_more_than_any_rate() -> None:
    rate = CPU_CORE["fp32"] * CPU_HERTZ * (os.cpu_count() or 1) * TRANSFORMED
    assert shortest_s(8.2e9, "fp32", "cpu") == pytest.approx(8.2e9 / rate)
    assert shortest_s(0.0, "fp32", "cpu") == 0.0


@pytest.mark.parametrize(("step_s", "status"), [(77e-9, "unchecked"), (1e-3, "same"), (None, "same")])
def test_a_step_below_the_bound_proves_nothing(tmp_path: Path, step_s: float | None, status: str) -> None:
    """The FLOPs of a ResNet-50, in 77 ns."""
    output = {"output/0@0": np.ones(3)}
    save_reference(tmp_path, Reference(output, {}, "by hand", flops=8.2e9))
    parity = check_parity(lambda: output, tmp_path, CASE, step_s)
    assert parity.status == status
    if status == "unchecked":
        assert "it did not do its work" in parity.reason


def test_the_reference_knows_the_flops_of_a_step(tmp_path: Path) -> None:
    from tare.measure.parity import load_reference

    make_reference(CASE, tmp_path)
    reference = load_reference(tmp_path)
    assert reference is not None
    sizes = (64, 128, 128, 10)
    assert reference.flops == sum(2 * 8 * a * b for a, b in itertools.pairwise(sizes))
