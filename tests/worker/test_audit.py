"""The audit against planted steps: one that is not synchronised, one that lies about its device, honest ones."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tare.measure.clock import Block, Step, WallClock
from tare.rungs.base import Program
from tare.worker.audit import _left_after, left_on_device

pytestmark = pytest.mark.alone

WORK_S = 0.02
# For which a busy machine keeps this process from a core.
DELAY_S = 0.012


class ThreadedProgram(Program):
    """A step that hands its work to a thread and returns at once, as a launch on a device does."""

    def __init__(self, look_s: float = 0.0, work_s: float = WORK_S) -> None:
        self._look_s, self._work_s = look_s, work_s
        self._running: list[threading.Thread] = []

    def step(self) -> threading.Thread:
        work = threading.Thread(target=time.sleep, args=(self._work_s,))
        work.start()
        self._running.append(work)
        return work

    def synchronize(self) -> None:
        while self._running:
            self._running.pop().join()

    def has_nan(self, result: Any) -> bool:
        result.join()
        time.sleep(self._look_s)
        return False

    def close(self) -> None:
        self.synchronize()


def forget() -> None:
    """A synchronisation that does not wait: the planted mistake."""


def test_a_step_that_is_still_running_is_caught() -> None:
    program = ThreadedProgram()
    found = left_on_device(program, WallClock(forget, overlaps=True), steps=1)
    program.close()
    assert found is not None
    assert "the step is not synchronised" in found


def test_a_long_block_of_which_little_is_left_is_caught() -> None:
    """As on a device with a short queue: the host waits for all steps but the last one."""
    program = ThreadedProgram()
    launch = program.step

    def step() -> threading.Thread:
        program.synchronize()
        return launch()

    program.step = step  # type: ignore[method-assign]
    found = left_on_device(program, WallClock(forget, overlaps=True), steps=40)
    program.close()
    assert found is not None
    assert "the step is not synchronised" in found


@pytest.mark.parametrize("look_s", [0.0, 0.03])
def test_an_honest_step_is_not_accused(look_s: float) -> None:
    """Not even where looking takes longer than the step: it takes as long the second time."""
    program = ThreadedProgram(look_s)
    assert left_on_device(program, WallClock(program.synchronize, overlaps=True), steps=2) is None


class DelayedProgram(ThreadedProgram):
    """One on a busy machine: the host is delayed at the end of some blocks, or in the first look behind them."""

    def __init__(self, blocks: int = 0, looks: int = 0) -> None:
        super().__init__(work_s=DELAY_S / 4)
        self._blocks, self._looks, self._looked = blocks, looks, False

    def step(self) -> threading.Thread:
        work = super().step()
        if self._blocks:
            self._blocks -= 1
            time.sleep(DELAY_S)
        self._looked = False
        return work

    def has_nan(self, result: Any) -> bool:
        if self._looks and not self._looked:
            self._looks -= 1
            time.sleep(DELAY_S)
        self._looked = True
        return super().has_nan(result)


@pytest.mark.parametrize("delayed", [1, 3])
def test_work_that_delays_hide_is_caught(delayed: int) -> None:
    """As on two cores beside another process: the work of a block ends while the host waits for a core."""
    program = DelayedProgram(blocks=delayed)
    found = _left_after(program, WallClock(forget, overlaps=True), steps=1)
    program.close()
    assert found is not None
    assert "the step is not synchronised" in found


@pytest.mark.parametrize("delayed", [1, 4])
def test_delayed_looks_are_not_an_accusation(delayed: int) -> None:
    program = DelayedProgram(looks=delayed)
    assert _left_after(program, WallClock(program.synchronize, overlaps=True), steps=1) is None


class SharedDevice(DelayedProgram):
    """Every first look behind a block waits for the work of other processes. The device tells what is left."""

    def __init__(self) -> None:
        super().__init__(looks=1000)

    def drain(self) -> bool:
        self.synchronize()
        return True


@pytest.mark.parametrize("waits", [True, False])
def test_a_device_that_other_processes_use_is_asked_what_it_has_left(waits: bool) -> None:
    program = SharedDevice()
    found = _left_after(program, WallClock(program.synchronize if waits else forget, overlaps=True), steps=1)
    program.close()
    assert (found is None) == waits


def test_a_block_of_no_time_by_chance_is_not_an_accusation() -> None:
    """The first block is not waited for, and every other one is."""
    program = ThreadedProgram()
    syncs: list[int] = []

    def synchronize() -> None:
        syncs.append(1)
        if len(syncs) > 2:
            program.synchronize()

    assert left_on_device(program, WallClock(synchronize, overlaps=True), steps=1) is None
    assert len(syncs) >= 4


class DeviceClock:
    """A clock whose device events say what a test wants."""

    overlaps = True

    def __init__(self, wall_ns: int, device_ns: int | None) -> None:
        self._wall_ns, self._device_ns = wall_ns, device_ns

    def synchronize(self) -> None: ...

    def time(self, step: Step, steps: int) -> Block:
        result = [step() for _ in range(steps)][-1]
        result.join()
        return Block(0, self._wall_ns, self._device_ns, result)


def audit(make: Callable[[], DeviceClock]) -> str | None:
    return left_on_device(ThreadedProgram(), make(), steps=1)


def test_a_device_that_was_busy_longer_than_the_block_is_caught() -> None:
    found = audit(lambda: DeviceClock(wall_ns=10_000_000, device_ns=20_000_000))
    assert found is not None
    assert found.startswith("the device was busy for 20 ms of a block timed as 10 ms")


@pytest.mark.parametrize("device_ns", [None, 5_000_000, 10_000_000, 10_040_000])
def test_a_device_that_fits_into_the_block_is_not_accused(device_ns: int | None) -> None:
    assert audit(lambda: DeviceClock(10_000_000, device_ns)) is None
