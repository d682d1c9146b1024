"""Clocks: a synchronised block of steps timed by the wall clock and, on a GPU, by device events as well."""

import time
from collections.abc import Callable
from itertools import repeat
from typing import Any, NamedTuple, Protocol

Step = Callable[[], Any]


class Block(NamedTuple):
    """One timed block; `result` is the return value of its last step."""

    at_ns: int
    wall_ns: int
    device_ns: int | None
    result: Any


class Clock(Protocol):
    """`overlaps`: steps return before their work has finished, so that a pipelined block needs several of them."""

    overlaps: bool

    def synchronize(self) -> None: ...
    def time(self, step: Step, steps: int) -> Block: ...


class WallClock:
    """The wall clock around a block; `synchronize` waits for the work of all steps."""

    def __init__(self, synchronize: Callable[[], None], overlaps: bool) -> None:
        self.synchronize = synchronize
        self.overlaps = overlaps

    def time(self, step: Step, steps: int) -> Block:
        result = None
        self.synchronize()
        start = time.perf_counter_ns()
        for _ in repeat(None, steps):
            result = step()
        self.synchronize()
        return Block(start, time.perf_counter_ns() - start, None, result)


class CudaClock:
    """Device events on the current stream inside the wall clock: two times of the same block."""

    overlaps = True

    def __init__(self, device: Any) -> None:
        import torch

        self._device = device
        self._start = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)
        self._synchronize = torch.cuda.synchronize

    def synchronize(self) -> None:
        self._synchronize(self._device)

    def time(self, step: Step, steps: int) -> Block:
        result = None
        self.synchronize()
        start = time.perf_counter_ns()
        self._start.record()
        for _ in repeat(None, steps):
            result = step()
        self._end.record()
        self.synchronize()
        wall = time.perf_counter_ns() - start
        return Block(start, wall, round(self._start.elapsed_time(self._end) * 1e6), result)


def resolution_ns() -> int:
    """The smallest observed increment of the wall clock."""
    increments = []
    for _ in range(50):
        start = now = time.perf_counter_ns()
        while now == start:
            now = time.perf_counter_ns()
        increments.append(now - start)
    return min(increments)


def spin_ns(loops: int = 20_000, repeats: int = 7) -> int:
    """Nanoseconds of a fixed loop, the best of a few. Taken before and after sampling, it shows throttling and
    noisy neighbours on machines that do not report a clock frequency (virtual machines, most containers)."""
    best = 1 << 62
    for _ in range(repeats):
        start = time.perf_counter_ns()
        total = 0
        for i in range(loops):
            total += i
        best = min(best, time.perf_counter_ns() - start)
    return best
