"""Leak check: does memory grow from step to step, in every process, for the whole round?"""

from itertools import accumulate, pairwise
from statistics import median

import numpy as np

from tare.guard.thresholds import Thresholds
from tare.records.figures import good_rounds
from tare.records.record import Record, Round
from tare.stats.growth import growth
from tare.stats.intervals import Interval, mean_interval

# Less growth than this over all steps of a round is left to the allocator and the kernel.
MIN_GROWTH = 256 * 1024


def leaks(a: Record | None, b: Record, thresholds: Thresholds) -> list[str]:
    """A line for each memory of `b` that leaks and did not leak as much in `a`."""
    lines = []
    for memory, limit in thresholds.leak.items():
        now, before = memory_growth(b, memory), memory_growth(a, memory) if a else None
        if now is None or not now.sound or now.low <= limit or now.mid * _steps(b) < MIN_GROWTH:
            continue
        if before is None or before.high < now.low:
            lines.append(
                f"{memory} memory grows by {now.mid / 1024:.1f} KiB a step "
                f"(95 % interval {now.low / 1024:.1f} to {now.high / 1024:.1f}, {len(good_rounds(b))} rounds)"
            )
    return lines


def memory_growth(record: Record, memory: str) -> Interval | None:
    """Bytes a step over the rounds of a record: a leak shows in all of them. None where no round has enough
    readings."""
    slopes = [growth(*memory_over_steps(round_, memory)) for round_ in good_rounds(record)]
    known = np.array([slope for slope in slopes if slope is not None])
    return mean_interval(known) if known.size else None


def memory_over_steps(round_: Round, memory: str) -> tuple[list[float], list[float]]:
    """The number of sampled steps completed at each reading, and the memory in use then."""
    trace = round_.memory_trace
    used = None if trace is None else (trace.host if memory == "host" else trace.device)
    blocks = sorted(
        (at, at + wall, steps)
        for series in round_.series
        if series.kind != "warmup"
        for at, wall, steps in zip(series.at_ns, series.wall_ns, series.steps, strict=True)
    )
    if trace is None or used is None or not blocks:
        return [], []
    edges = [edge for begin, end, _ in blocks for edge in (begin, end)]
    completed = [0, *accumulate(steps for _, _, steps in blocks)]
    steps = np.interp(trace.at_ns, edges, [count for pair in pairwise(completed) for count in pair])
    return steps.tolist(), [float(size) for size in used]


def _steps(record: Record) -> float:
    counts = [sum(sum(s.steps) for s in round_.series if s.kind != "warmup") for round_ in good_rounds(record)]
    return median(counts) if counts else 0.0
