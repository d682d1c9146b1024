"""A kernel of known length is measured within 1 %, and work that is not waited for is caught."""

from statistics import median
from typing import Any

import pytest
import torch
from spin import make_spin

from tare.execute.audit import left_running
from tare.measure.clock import CudaClock, WallClock
from tare.measure.sampler import Limits, sample
from tare.records.record import Series


class Spinning:
    """A program around a spin kernel."""

    def __init__(self, microseconds: int) -> None:
        self.device = torch.device("cuda")
        self.build_s = 0.0
        self.notes: list[str] = []
        self.step = make_spin(microseconds)

    def fetch(self, result: Any) -> Any:
        return {"output/0": result.cpu().numpy()}

    def evidence(self) -> Any:
        return self.fetch(self.step())

    def close(self) -> None:
        pass


@pytest.mark.parametrize("milliseconds", [2, 10])
def test_a_kernel_of_known_length_is_measured_within_one_percent(milliseconds: int) -> None:
    kept: list[Series] = []
    step = make_spin(milliseconds * 1000)
    sample(step, CudaClock(torch.device("cuda")), Limits(2.0, 0.002, warmup_at_least_s=0.2), kept.append)
    pipelined, latency = kept[1], kept[2]
    device = pipelined.device_step_seconds()
    assert device is not None
    assert median(device) == pytest.approx(milliseconds / 1e3, rel=0.01)
    assert median(pipelined.step_seconds()) == pytest.approx(milliseconds / 1e3, rel=0.01)
    # One step alone pays for its launch and for waiting: a constant of some 20 us, which is 1 % of 2 ms.
    assert median(latency.step_seconds()) == pytest.approx(
        milliseconds / 1e3, rel=0.01 if milliseconds > 5 else 0.02
    )


def test_a_synchronised_step_is_not_accused() -> None:
    assert left_running(Spinning(500), CudaClock(torch.device("cuda")), 20) is None


def test_a_missing_synchronisation_is_caught() -> None:
    """A clock that does not wait sees only the launches; fetching the result gives it away."""
    accused = left_running(Spinning(2000), WallClock(lambda: None, overlaps=True), 20)
    torch.cuda.synchronize()
    assert accused is not None
    assert "not synchronised" in accused


def test_the_unsynchronised_clock_would_have_been_wrong() -> None:
    step = make_spin(2000)
    block = WallClock(lambda: None, overlaps=True).time(step, 20)
    torch.cuda.synchronize()
    assert block.wall_ns < 0.5 * 20 * 2_000_000
