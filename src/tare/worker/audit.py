"""Distrust of the step that was just timed: does it give numbers, and had it finished when the clock stopped?"""

import time
from typing import Any

from tare.measure.clock import Clock
from tare.rungs.base import Program

TRIES = 3
# Work that goes on after the clock has stopped is an error if it is this much of the block, and no mere jitter.
SHARE = 0.10
JITTER_NS = 50_000


def left_running(program: Program, clock: Clock, steps: int) -> str | None:
    """Whether looking at the result right after the synchronised block waits for something.

    Nothing can be seen before it exists. If the first look takes much longer than a second one, the block's
    synchronisation did not wait for the work, and the times are too short.
    """
    worst: tuple[int, int] | None = None
    for _ in range(TRIES):
        block = clock.time(program.step, steps)
        first = _look_ns(program, block.result)
        extra = first - _look_ns(program, block.result)
        if block.device_ns is not None and block.device_ns > 1.05 * block.wall_ns + JITTER_NS:
            return (
                f"the device was busy for {block.device_ns / 1e6:.3g} ms of a block timed as "
                f"{block.wall_ns / 1e6:.3g} ms: the step is not synchronised"
            )
        if extra <= max(SHARE * block.wall_ns, JITTER_NS):
            return None
        worst = (extra, block.wall_ns)
    assert worst is not None
    return (
        f"{worst[0] / 1e6:.3g} ms of work went on after a block timed as {worst[1] / 1e6:.3g} ms had been "
        "synchronised: the step is not synchronised"
    )


def _look_ns(program: Program, result: Any) -> int:
    start = time.perf_counter_ns()
    program.has_nan(result)
    return time.perf_counter_ns() - start
