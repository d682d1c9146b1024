"""A program that computes, copies and sleeps for known times is decomposed within 3 %."""

import time
from pathlib import Path
from statistics import median

import pytest
import torch
from spin import Spin

from tare.trace.breakdown import breakdown
from tare.trace.explanation import About, explain
from tare.trace.idle import explain_idle
from tare.trace.read import read
from tare.trace.windows import drop_outlier_steps
from tare.worker.profiling import record

pytestmark = pytest.mark.alone

SPIN_MS, SLEEP_S, BYTES = 20.0, 0.03, 1 << 29
STEPS = 8


class Program:
    """Computes, then copies, then sleeps while the device is idle: one after the other."""

    def __init__(self) -> None:
        self.spin = Spin(SPIN_MS)
        self.host = torch.randn(BYTES // 4, pin_memory=True)
        self.there = torch.empty(BYTES // 4, device="cuda")

    def __call__(self) -> None:
        self.spin()
        self.there.copy_(self.host, non_blocking=True)
        torch.cuda.synchronize()
        time.sleep(SLEEP_S)

    def copy_seconds(self) -> float:
        """By the device's own events, without the rest."""
        taken = []
        for _ in range(10):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self.there.copy_(self.host, non_blocking=True)
            end.record()
            torch.cuda.synchronize()
            taken.append(start.elapsed_time(end) / 1e3)
        return float(median(taken))


@pytest.fixture(scope="module")
def program() -> Program:
    made = Program()
    for _ in range(20):
        made()
    return made


def test_known_times_are_found_again(program: Program, tmp_path: Path) -> None:
    copied_s = program.copy_seconds()
    program.spin.forget()
    began = time.perf_counter()
    for _ in range(STEPS):
        program()
    gross_s = (time.perf_counter() - began) / STEPS
    spun_s = program.spin.true_s
    path = tmp_path / "truth.json.gz"
    # A spin is of so many cycles, and the clock may change: what was profiled is held against its own truth.
    program.spin.forget()
    record(program, torch.cuda.synchronize, "cuda", str(path), STEPS, False, {})
    profiled_s = program.spin.true_s
    trace = drop_outlier_steps(read(path))
    parts, idle = breakdown(trace), explain_idle(trace)
    assert parts is not None
    assert idle is not None
    steps = len(parts.steps)
    assert parts.active / steps / 1e9 == pytest.approx(profiled_s, rel=0.03)
    assert parts.movement / steps / 1e9 == pytest.approx(copied_s, rel=0.03)
    assert parts.idle / steps / 1e9 == pytest.approx(gross_s - spun_s - copied_s, rel=0.03)
    fall = explain(trace, About(title="truth", gross=round(gross_s * 1e9))).waterfall
    assert fall.find("kernels") / 1e9 == pytest.approx(profiled_s, rel=0.03)
    assert fall.find("movement") / 1e9 == pytest.approx(copied_s, rel=0.03)
    # The sleep comes after the last kernel of its step: it is the tail of it.
    assert (fall.find("tail") + fall.find("python")) / 1e9 == pytest.approx(SLEEP_S, rel=0.03)


def test_two_streams_are_one_device(tmp_path: Path) -> None:
    """Two spins at once on two streams are active once, and overlapped for the shorter of the two."""
    one, other = Spin(10.0), Spin(5.0)
    aside = torch.cuda.Stream()

    def step() -> None:
        one()
        with torch.cuda.stream(aside):
            other()
        torch.cuda.synchronize()

    for _ in range(10):
        step()
    one.forget()
    other.forget()
    path = tmp_path / "streams.json.gz"
    record(step, torch.cuda.synchronize, "cuda", str(path), STEPS, False, {})
    parts = breakdown(drop_outlier_steps(read(path)))
    assert parts is not None
    assert len(parts.streams) == 2
    steps = len(parts.steps)
    assert parts.active / steps / 1e9 == pytest.approx(one.true_s, rel=0.03)
    assert parts.overlapped / steps / 1e9 == pytest.approx(other.true_s, rel=0.03)
