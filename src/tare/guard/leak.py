"""Leak check: does memory grow from step to step, in every process, for as long as one looks?"""

from bisect import bisect_right
from statistics import median

from tare.guard.thresholds import Thresholds
from tare.records.figures import good_rounds
from tare.records.record import Record, Round
from tare.stats.growth import growth, growth_over_rounds
from tare.stats.intervals import Interval

# Less than this over all steps of a round is an allocator's or the kernel's own business.
LEAST_BYTES = 256 * 1024


def leaks(a: Record | None, b: Record, thresholds: Thresholds) -> list[str]:
    """A line for each memory of `b` that leaks and did not leak so in `a`."""
    lines = []
    for place, limit in thresholds.leak.items():
        now = memory_growth(b, place)
        if now is None or not now.sound or now.low <= limit or now.mid * _steps(b) < LEAST_BYTES:
            continue
        before = memory_growth(a, place) if a else None
        if before is not None and before.high >= now.low:
            continue
        rounds = len(_slopes(b, place))
        lines.append(
            f"{place} memory grows by {now.mid / 1024:.1f} KiB a step "
            f"(95 % interval {now.low / 1024:.1f} to {now.high / 1024:.1f}, {rounds} rounds)"
        )
    return lines


def memory_growth(record: Record, place: str) -> Interval | None:
    """Bytes a step over the rounds of a record; None where no round has a trace long enough."""
    return growth_over_rounds(_slopes(record, place))


def _slopes(record: Record, place: str) -> list[float]:
    slopes = []
    for done in good_rounds(record):
        steps, held = memory_over_steps(done, place)
        slope = growth(steps, held)
        if slope is not None:
            slopes.append(slope)
    return slopes


def memory_over_steps(done: Round, place: str) -> tuple[list[float], list[float]]:
    """How many steps of the sampled series had been done at each reading, and the memory then."""
    trace = done.memory_trace
    held = None if trace is None else (trace.host if place == "host" else trace.device)
    blocks = [
        (at, at + wall, steps)
        for series in done.series
        if series.kind != "warmup"
        for at, wall, steps in zip(series.at_ns, series.wall_ns, series.steps, strict=True)
    ]
    if trace is None or held is None or not blocks:
        return [], []
    blocks.sort()
    ends = [end for _, end, _ in blocks]
    done_before = [0]
    for _, _, steps in blocks:
        done_before.append(done_before[-1] + steps)
    return [_steps_at(at, blocks, ends, done_before) for at in trace.at_ns], [float(bytes_) for bytes_ in held]


def _steps_at(at: int, blocks: list[tuple[int, int, int]], ends: list[int], done_before: list[int]) -> float:
    i = bisect_right(ends, at)
    if i == len(blocks):
        return float(done_before[-1])
    begin, end, steps = blocks[i]
    share = min(max((at - begin) / (end - begin), 0.0), 1.0) if end > begin else 1.0
    return done_before[i] + share * steps


def _steps(record: Record) -> float:
    counts = [sum(sum(s.steps) for s in done.series if s.kind != "warmup") for done in good_rounds(record)]
    return median(counts) if counts else 0.0
