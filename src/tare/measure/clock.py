"""Clocks: a block of steps timed by the wall clock, synchronised, and on a GPU by device events as well."""

import time
from collections.abc import Callable
from itertools import repeat
from typing import Any, NamedTuple, Protocol

Step = Callable[[], Any]


class Block(NamedTuple):
    """One timed block; `result` is what its last step returned."""

    at_ns: int
    wall_ns: int
    device_ns: int | None
    result: Any


class Clock(Protocol):
    """`overlaps` says that steps run ahead of the device, so that a pipelined block needs several of them."""

    overlaps: bool

    def synchronize(self) -> None: ...
    def time(self, step: Step, steps: int) -> Block: ...


class WallClock:
    """The wall clock around a block; `synchronize` waits for what the steps left running."""

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
    """Device events on the current stream inside the wall clock: both figures of the same block."""

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
    """The smallest step that the wall clock was seen to take."""
    seen = []
    for _ in range(50):
        start = now = time.perf_counter_ns()
        while now == start:
            now = time.perf_counter_ns()
        seen.append(now - start)
    return min(seen)
