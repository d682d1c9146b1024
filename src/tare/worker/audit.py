"""The audit of a step that was just timed: had its work finished when the clock stopped?"""

import time
from typing import Any

from tare.measure.clock import Clock
from tare.rungs.base import Program

TRIES = 3
# Work after the clock has stopped is an error if it exceeds this share of the block, and these nanoseconds.
SHARE = 0.10
JITTER_NS = 50_000


def left_running(program: Program, clock: Clock, steps: int) -> str | None:
    """Describes the work that a synchronised block left running, or None.

    A result cannot be read before it exists. If the first read after the block takes much longer than a second
    one, the block's synchronisation did not wait for the work, and its time is too short.
    """
    worst: tuple[int, int] | None = None
    for _ in range(TRIES):
        block = clock.time(program.step, steps)
        first = _read_ns(program, block.result)
        extra = first - _read_ns(program, block.result)
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


def _read_ns(program: Program, result: Any) -> int:
    start = time.perf_counter_ns()
    program.has_nan(result)
    return time.perf_counter_ns() - start
