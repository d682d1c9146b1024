"""A clock whose time is simulated: the sampler can be tested on any noise, exactly and at once."""

from collections.abc import Callable
from typing import NamedTuple

from tare.measure.clock import Block, Step


class Timed(NamedTuple):
    at_ns: int
    wall_ns: int
    steps: int


class SimulatedClock:
    """`step_s` says what a step of a block that begins now takes; `now` is the sampler's other clock."""

    def __init__(self, step_s: Callable[[float], float], overlaps: bool = False, device: bool = False) -> None:
        self.overlaps = overlaps
        self.timed: list[Timed] = []
        self._step_s = step_s
        self._device = device
        self._now_ns = 0

    def now(self) -> float:
        return self._now_ns / 1e9

    def synchronize(self) -> None:
        """Simulated steps are done when they return."""

    def time(self, step: Step, steps: int) -> Block:
        at, wall = self._now_ns, round(self._step_s(self.now()) * steps * 1e9)
        result = step()
        self._now_ns += wall
        self.timed.append(Timed(at, wall, steps))
        return Block(at, wall, wall // 2 if self._device else None, result)
