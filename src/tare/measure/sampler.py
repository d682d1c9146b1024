"""The sampler: warms up until steady, then times blocks until the median is precise or the budget is spent."""

import math
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from tare.measure.clock import Block, Clock, Step, resolution_ns
from tare.records.record import Series, SeriesKind, Stop
from tare.stats.intervals import median_interval

# A block lasts this many times the clock's resolution, so that reading the clock costs under 0.1 %.
RESOLUTIONS = 2000
# The work between two blocks evicts caches and predictors, which the next block fills again: 3 us on two x86-64
# cores. A block this long keeps that to a third of a percent.
HOST_BLOCK_NS = 1_000_000
# Filling and draining a device's queue costs 20 us a block at best, and took 250 us on a virtual machine whose CPU
# went idle while it waited. A block this long keeps that to half a percent.
DEVICE_BLOCK_NS = 50_000_000
# Fewest steps of a pipelined block where the host runs ahead of the device.
PIPELINE_STEPS = 10
# Blocks are made shorter than the above if fewer than this many would fit into the budget.
WANTED_BLOCKS = 10
MOST_BLOCKS = 2000
FEWEST_BLOCKS = 3
# A series lasts at least this share of its budget, because a short time can be calm by chance.
SHORTEST = 0.1
DEVICE_WARMUP_S = 0.3
# Two successive windows of blocks that agree this well are steady.
WINDOW = 5
STEADY = 0.02


class SamplingLimits(NamedTuple):
    """`budget_s` is divided between warm-up, pipelined blocks and latency. A series ends early once the relative
    interval of its median is narrower than `width`."""

    budget_s: float
    width: float
    warmup_share: float = 0.25
    latency_share: float = 0.25
    warmup_at_least_s: float = 0.0

    @classmethod
    def of_clock(cls, budget_s: float, width: float, clock: Clock) -> "SamplingLimits":
        """An idle GPU needs some time under load before it reaches its clock frequency."""
        return cls(budget_s, width, warmup_at_least_s=DEVICE_WARMUP_S if clock.overlaps else 0.0)

    @property
    def warmup_s(self) -> float:
        return max(self.budget_s * self.warmup_share, self.warmup_at_least_s)

    @property
    def pipelined_s(self) -> float:
        return self.budget_s * (1 - self.warmup_share) * (1 - self.latency_share)

    @property
    def latency_s(self) -> float:
        return self.budget_s * (1 - self.warmup_share) * self.latency_share


Report = Callable[[Series], None]
Now = Callable[[], float]


def sample(
    step: Step, clock: Clock, limits: SamplingLimits, report: Report, now: Now = time.perf_counter
) -> object:
    """Measures a step, passes each series to `report` as it ends, and returns what the last step returned."""
    warm = _Blocks("warmup")
    steps = _warm_up(step, clock, limits, warm, now)
    report(warm.series)
    pipelined = _Blocks("pipelined")
    _fill(pipelined, step, clock, steps, limits.pipelined_s, limits.width, now)
    report(pipelined.series)
    latency = _Blocks("latency")
    last = _fill(latency, step, clock, 1, limits.latency_s, limits.width, now)
    report(latency.series)
    return last.result


class _Blocks:
    """The blocks of a series as they come."""

    def __init__(self, kind: SeriesKind) -> None:
        self.kind: SeriesKind = kind
        self.blocks: list[Block] = []
        self.steps: list[int] = []
        self.per_step: list[float] = []
        self.stop: Stop = "budget"

    def take(self, step: Step, clock: Clock, steps: int) -> Block:
        block = clock.time(step, steps)
        # A result may hold device memory, so it is not kept here.
        self.blocks.append(block._replace(result=None))
        self.steps.append(steps)
        self.per_step.append(block.wall_ns / steps)
        return block

    @property
    def series(self) -> Series:
        device = [block.device_ns for block in self.blocks if block.device_ns is not None]
        return Series(
            kind=self.kind,
            steps=self.steps,
            wall_ns=[block.wall_ns for block in self.blocks],
            at_ns=[block.at_ns for block in self.blocks],
            device_ns=device if len(device) == len(self.blocks) and device else None,
            stop=self.stop,
        )


def _warm_up(step: Step, clock: Clock, limits: SamplingLimits, warm: _Blocks, now: Now) -> int:
    """Runs until two successive windows of blocks agree; returns the number of steps of a pipelined block."""
    began = now()
    steps = 1
    warm.take(step, clock, 1)
    while True:
        warm.take(step, clock, steps)
        steps = _block_steps(min(warm.per_step[-3:]), clock, limits)
        spent = now() - began
        if spent >= limits.warmup_at_least_s and _is_steady(warm.per_step):
            warm.stop = "steady"
            return steps
        if spent >= limits.warmup_s and len(warm.blocks) >= FEWEST_BLOCKS:
            warm.stop = "unsteady"
            return steps


def _block_steps(step_ns: float, clock: Clock, limits: SamplingLimits) -> int:
    step_ns = max(step_ns, 1.0)
    # MOST_BLOCKS blocks last as long as the budget, so that a series never ends because it is full.
    wanted_ns = max(RESOLUTIONS * resolution_ns(), HOST_BLOCK_NS, limits.pipelined_s * 1e9 / MOST_BLOCKS)
    fewest = 1
    if clock.overlaps:
        wanted_ns = max(wanted_ns, DEVICE_BLOCK_NS)
        fewest = PIPELINE_STEPS
    steps = max(math.ceil(wanted_ns / step_ns), fewest)
    affordable = int(limits.budget_s * 1e9 / 2 / WANTED_BLOCKS / step_ns)
    return max(min(steps, affordable), 2 if clock.overlaps else 1)


def _is_steady(per_step: list[float]) -> bool:
    if len(per_step) < 2 * WINDOW:
        return False
    before, after = median(per_step[-2 * WINDOW : -WINDOW]), median(per_step[-WINDOW:])
    return abs(after - before) <= STEADY * before


def _fill(into: _Blocks, step: Step, clock: Clock, steps: int, budget_s: float, width: float, now: Now) -> Block:
    """Takes blocks until the interval of their median is narrow or the budget is spent.

    The interval is tested only when the number of blocks has doubled. Testing after every block would stop on a
    lucky streak, and the interval would cover the median less often than it claims (tests/measure simulates this).
    """
    began = now()
    next_test = 8
    while True:
        last = into.take(step, clock, steps)
        taken, spent = len(into.blocks), now() - began
        full = taken >= MOST_BLOCKS
        # Latency has one step a block, so that a fast step may fill the series before its shortest time.
        if full or (taken >= next_test and spent >= SHORTEST * budget_s):
            next_test = 2 * taken
            if median_interval(into.per_step).width <= width:
                into.stop = "width"
                return last
        if full or (taken >= FEWEST_BLOCKS and spent >= budget_s):
            return last
