"""The sampler: warm up until steady, then time blocks until the median is known well enough or time is up."""

import math
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from tare.measure.clock import Block, Clock, Step, resolution_ns
from tare.records.record import Series, SeriesKind, Stop
from tare.stats.intervals import median_interval

# A block is this many times longer than the clock's resolution, so that reading it costs under 0.1 %.
RESOLUTIONS = 2000
# What is done between two blocks leaves caches and predictors that the first step of the next fills again: 3 us on
# two x86-64 cores. A block this long keeps that to a third of a percent.
HOST_BLOCK_NS = 1_000_000
# Filling and draining a device's queue costs 20 us a block at best; 250 us were seen on a virtual machine whose
# CPU had dozed off while it waited. A block this long keeps that to half a percent.
DEVICE_BLOCK_NS = 50_000_000
# Steps a pipelined block holds at least where the host runs ahead of the device.
PIPELINE_STEPS = 10
# Blocks that fit into the budget at least, before blocks are made shorter than one would like.
WANTED_BLOCKS = 10
MOST_BLOCKS = 2000
FEWEST_BLOCKS = 3
# A series lasts at least this share of its budget: a moment can be calm by luck.
SHORTEST = 0.1
# Two successive windows of blocks that agree this well are steady.
WINDOW = 5
STEADY = 0.02


class Limits(NamedTuple):
    """`budget_s` is divided between warm-up, pipelined blocks and latency; `width` ends a series early."""

    budget_s: float
    width: float
    warmup_share: float = 0.25
    latency_share: float = 0.25
    # A GPU leaves its idle clock only after some work: nothing is steady before that.
    warmup_at_least_s: float = 0.0

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


def sample(step: Step, clock: Clock, limits: Limits, report: Report, now: Now = time.perf_counter) -> object:
    """Measures a step, hands each series to `report` as it ends, and returns what the last step returned."""
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
        # The result may hold device memory: only the newest is kept, and not in here.
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


def _warm_up(step: Step, clock: Clock, limits: Limits, warm: _Blocks, now: Now) -> int:
    """Runs until two windows of blocks agree; returns how many steps a pipelined block should hold."""
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


def _block_steps(step_ns: float, clock: Clock, limits: Limits) -> int:
    step_ns = max(step_ns, 1.0)
    # MOST_BLOCKS last as long as the series may: it ends for want of time, never for want of room.
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

    The interval is looked at only when the number of blocks has doubled: looking after every block would stop
    on a lucky streak and report an interval that covers less often than it says. (tests/measure simulates it.)
    """
    began = now()
    look = 8
    while True:
        last = into.take(step, clock, steps)
        taken, spent = len(into.blocks), now() - began
        full = taken >= MOST_BLOCKS
        # Latency has a step a block, so that a fast step fills the series long before its shortest time.
        if full or (taken >= look and spent >= SHORTEST * budget_s):
            look = 2 * taken
            if median_interval(into.per_step).width <= width:
                into.stop = "width"
                return last
        if full or (taken >= FEWEST_BLOCKS and spent >= budget_s):
            return last
