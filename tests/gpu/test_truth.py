"""A kernel of known length is measured within 1 %, and work that is not waited for is caught."""

import time
from statistics import median
from typing import Any

import pytest
import torch
from spin import Spin

from tare.measure.clock import CudaClock, WallClock
from tare.measure.sampler import SamplingLimits, StepTimer, sample
from tare.records.record import Series
from tare.rungs.base import Program
from tare.worker.audit import left_on_device

pytestmark = pytest.mark.alone


class Spinning(Program):
    """A program around a spin kernel."""

    def __init__(self, milliseconds: float) -> None:
        self.step = Spin(milliseconds)

    def has_nan(self, result: Any) -> bool:
        return bool(result.isnan().any())


def measure(milliseconds: float) -> tuple[float, dict[str, Series]]:
    """The kernel's own account of its length, and what the sampler says, once the GPU's clock is up."""
    spin = Spin(milliseconds)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        spin()
        torch.cuda.synchronize()
    spin.forget()
    kept: list[Series] = []
    sample(StepTimer(spin, CudaClock(torch.device("cuda"))), SamplingLimits(3.0, 0.001), kept.append)
    return spin.true_s, {series.kind: series for series in kept}


@pytest.mark.parametrize("milliseconds", [2, 40])
def test_back_to_back_steps_are_measured_within_one_percent(milliseconds: float) -> None:
    true_s, series = measure(milliseconds)
    device = series["pipelined"].device_step_seconds()
    assert median(device) == pytest.approx(true_s, rel=0.01)
    assert median(series["pipelined"].step_seconds()) == pytest.approx(true_s, rel=0.01)


def test_latency_is_measured_within_one_percent() -> None:
    """The step is so long that launch and wake-up, which belong to latency (up to 0.4 ms), are below 1 %."""
    true_s, series = measure(100)
    assert median(series["latency"].step_seconds()) == pytest.approx(true_s, rel=0.01)


def test_synchronised_step_passes_the_audit() -> None:
    assert left_on_device(Spinning(0.5), CudaClock(torch.device("cuda")), 20) is None


def test_missing_synchronisation_is_detected() -> None:
    """A clock that does not wait sees only the launches; reading the result then takes longer."""
    message = left_on_device(Spinning(2), WallClock(lambda: None, overlaps=True), 20)
    torch.cuda.synchronize()
    assert message is not None
    assert "not synchronised" in message


def test_unsynchronised_clock_is_wrong() -> None:
    block = WallClock(lambda: None, overlaps=True).time(Spin(2), 20)
    torch.cuda.synchronize()
    assert block.wall_ns < 0.5 * 20 * 2_000_000
