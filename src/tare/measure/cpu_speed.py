"""The pace of the CPU: how long a fixed amount of work takes now, against its best. Sees throttling and
neighbours on machines that show no clock (virtual machines, most containers)."""

import time

_LOOPS = 20_000
_REPEATS = 7


def spin_ns(loops: int = _LOOPS) -> int:
    """Nanoseconds of a fixed loop, the best of a few."""
    best = 1 << 62
    for _ in range(_REPEATS):
        start = time.perf_counter_ns()
        total = 0
        for i in range(loops):
            total += i
        best = min(best, time.perf_counter_ns() - start)
    return best


def pace(before_ns: int, after_ns: int) -> float:
    """Speed at the end as a share of the speed at the start: 1 is the same, 0.8 a fifth slower."""
    return before_ns / after_ns if after_ns else 1.0
