"""The sampler: warms up until steady, then times blocks until the median is precise or the budget is spent."""

import math
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple, Protocol

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
# Shares of the budget: of the whole, and of what is left after the warm-up.
WARMUP_SHARE, LATENCY_SHARE = 0.25, 0.25
# An idle GPU needs some time under load before it reaches its clock frequency.
DEVICE_WARMUP_S = 0.3
# Two successive windows of blocks that agree this well are steady.
WINDOW = 5
STEADY = 0.02


class SamplingLimits(NamedTuple):
    """`budget_s` is divided between warm-up, pipelined blocks and latency. A series ends early once the relative
    interval of its median is narrower than `width`."""

    budget_s: float
    width: float

    @property
    def warmup_s(self) -> float:
        return self.budget_s * WARMUP_SHARE

    @property
    def pipelined_s(self) -> float:
        return self.budget_s * (1 - WARMUP_SHARE) * (1 - LATENCY_SHARE)

    @property
    def latency_s(self) -> float:
        return self.budget_s * (1 - WARMUP_SHARE) * LATENCY_SHARE


class BlockTimer(Protocol):
    """Times the blocks of one program. What it does before and after the timed part is not in `Block.wall_ns`."""

    @property
    def overlaps(self) -> bool:
        """Whether steps return before their work has finished (Clock.overlaps)."""

    def begin(self, kind: SeriesKind) -> None:
        """A series of blocks begins."""

    def time(self, steps: int) -> Block: ...


class StepTimer:
    """Times a step that is the same in every block."""

    def __init__(self, step: Step, clock: Clock) -> None:
        self._step, self._clock = step, clock

    @property
    def overlaps(self) -> bool:
        return self._clock.overlaps

    def begin(self, kind: SeriesKind) -> None: ...

    def time(self, steps: int) -> Block:
        return self._clock.time(self._step, steps)


Report = Callable[[Series], None]
Now = Callable[[], float]


def sample(timer: BlockTimer, limits: SamplingLimits, report: Report, now: Now = time.perf_counter) -> None:
    """Measures a step, and passes each series to `report` as it ends."""
    warm = _Blocks("warmup", timer, now)
    steps = _warm_up(warm, limits)
    report(warm.series)
    pipelined = _Blocks("pipelined", timer, now)
    _fill(pipelined, steps, limits.pipelined_s, limits.width)
    report(pipelined.series)
    latency = _Blocks("latency", timer, now)
    _fill(latency, 1, limits.latency_s, limits.width)
    report(latency.series)


def sample_runs(
    timer: BlockTimer, budget_s: float, width: float, report: Report, now: Now = time.perf_counter
) -> None:
    """Measures a step that is a whole process. The first run fills the caches of the disk, and nothing else lasts
    from one run to the next; nor does a run overlap with the next, so that there is no latency apart."""
    warm = _Blocks("warmup", timer, now)
    warm.take(1)
    report(warm.series)
    runs = _Blocks("pipelined", timer, now)
    _fill(runs, 1, budget_s, width)
    report(runs.series)


class _Blocks:
    """The blocks of a series as they come."""

    def __init__(self, kind: SeriesKind, timer: BlockTimer, now: Now) -> None:
        self.kind: SeriesKind = kind
        self.stop: Stop = "budget"
        self.overlaps = timer.overlaps
        self.per_step: list[float] = []
        self._blocks: list[Block] = []
        self._steps: list[int] = []
        self._timer, self._now, self._began = timer, now, now()
        timer.begin(kind)

    @property
    def spent_s(self) -> float:
        return self._now() - self._began

    def take(self, steps: int) -> None:
        block = self._timer.time(steps)
        # A result may hold device memory, so it is not kept here.
        self._blocks.append(block._replace(result=None))
        self._steps.append(steps)
        self.per_step.append(block.wall_ns / steps)

    @property
    def series(self) -> Series:
        device = [block.device_ns for block in self._blocks if block.device_ns is not None]
        return Series(
            kind=self.kind,
            steps=self._steps,
            wall_ns=[block.wall_ns for block in self._blocks],
            at_ns=[block.at_ns for block in self._blocks],
            device_ns=device if len(device) == len(self._blocks) and device else None,
            stop=self.stop,
        )


def _warm_up(warm: _Blocks, limits: SamplingLimits) -> int:
    """Runs until two successive windows of blocks agree; returns the number of steps of a pipelined block."""
    at_least_s = DEVICE_WARMUP_S if warm.overlaps else 0.0
    steps = 1
    warm.take(1)
    while True:
        warm.take(steps)
        steps = _block_steps(min(warm.per_step[-3:]), warm.overlaps, limits)
        spent_s = warm.spent_s
        if spent_s >= at_least_s and _is_steady(warm.per_step):
            warm.stop = "steady"
            return steps
        if spent_s >= max(limits.warmup_s, at_least_s) and len(warm.per_step) >= FEWEST_BLOCKS:
            warm.stop = "unsteady"
            return steps


def _block_steps(step_ns: float, overlaps: bool, limits: SamplingLimits) -> int:
    step_ns = max(step_ns, 1.0)
    # MOST_BLOCKS blocks last as long as the budget, so that a series never ends because it is full.
    wanted_ns = max(RESOLUTIONS * resolution_ns(), HOST_BLOCK_NS, limits.pipelined_s * 1e9 / MOST_BLOCKS)
    fewest = 1
    if overlaps:
        wanted_ns = max(wanted_ns, DEVICE_BLOCK_NS)
        fewest = PIPELINE_STEPS
    steps = max(math.ceil(wanted_ns / step_ns), fewest)
    affordable = int(limits.budget_s * 1e9 / 2 / WANTED_BLOCKS / step_ns)
    return max(min(steps, affordable), 2 if overlaps else 1)


def _is_steady(per_step: list[float]) -> bool:
    if len(per_step) < 2 * WINDOW:
        return False
    before, after = median(per_step[-2 * WINDOW : -WINDOW]), median(per_step[-WINDOW:])
    return abs(after - before) <= STEADY * before


def _fill(into: _Blocks, steps: int, budget_s: float, width: float) -> None:
    """Takes blocks until the interval of their median is narrow or the budget is spent.

    The interval is tested only when the number of blocks has doubled. Testing after every block would stop on a
    lucky streak, and the interval would cover the median less often than it claims (tests/measure simulates this).
    """
    next_test = 8
    while True:
        into.take(steps)
        taken, spent_s = len(into.per_step), into.spent_s
        full = taken >= MOST_BLOCKS
        # Latency has one step a block, so that a fast step may fill the series before its shortest time.
        if full or (taken >= next_test and spent_s >= SHORTEST * budget_s):
            next_test = 2 * taken
            if median_interval(into.per_step).width <= width:
                into.stop = "width"
                return
        if full or (taken >= FEWEST_BLOCKS and spent_s >= budget_s):
            return
