"""The evidence of a round, taken of the steps that are timed.

Parity would prove nothing if it compared other steps than those that were timed: a program could keep its result,
skip every second step, or work only when it is looked at. So the batch changes before every block, and the results
of blocks that are chosen at random are what parity compares. The choice covers every batch and both parities of
blocks. Sums of the results show which of the other blocks deviate, and those are compared as well.

In training the weights change with every step. They are restored before blocks that are chosen, and at the latest
after MOST_STEPS steps, so that training on random data does not diverge. Two blocks of EVIDENCE_STEPS steps, which
are timed like the others but not counted, show what several updates do: one early, one after the pipelined series,
because a program may lose its updates later. Where their steps take longer than others, the audit looks why.

rungs/native/worker/evidence.hpp is the same for programs in C++.
"""

import itertools
import random
import time
from collections import Counter
from math import isclose, isnan
from typing import Any

from tare.measure.clock import Block, Clock
from tare.measure.memory import MemoryMeter
from tare.records.record import SeriesKind
from tare.rungs.base import EVIDENCE_STEPS, Arrays, Program
from tare.workloads.variants import BATCHES

# Fewer steps than training on random data takes to diverge.
MOST_STEPS = 64
# Sums of the same result differ by the order of atomic additions.
SUM_TOLERANCE = 1e-3
# How many blocks are kept because their sums deviate.
MOST_DEVIATING = 4
# The share of the time that looking at results may take. Results of blocks that were chosen are always looked at.
LOOKING_SHARE = 0.25


class TimedEvidence:
    """Times the blocks of a program for the sampler, and keeps evidence of them."""

    def __init__(self, program: Program, clock: Clock, memory: MemoryMeter) -> None:
        self.arrays: Arrays = {}
        # Whether a result had a NaN. The loss of a long block does not count: its training may have diverged.
        self.has_nan = False
        self.diverged = False
        self._program, self._clock, self._memory = program, clock, memory
        # Not seeded: a program cannot know which of its steps are compared.
        self._random = random.Random()
        self._kind: SeriesKind = "warmup"
        self._rotation = itertools.cycle(range(BATCHES))
        self._block = self._batch = self._steps = self._deviating = 0
        # Of the blocks that show updates, the nanoseconds of a step.
        self.verified_ns: list[float] = []
        self._verified_kinds: set[SeriesKind] = set()
        self._verified_before = self._random.randrange(3)
        self._seen: Counter[tuple[SeriesKind, int, int]] = Counter()
        self._sums: dict[int, float] = {}
        self._began, self._looking = time.perf_counter(), 0.0

    @property
    def overlaps(self) -> bool:
        return self._clock.overlaps

    def begin(self, kind: SeriesKind) -> None:
        self._kind, self._block = kind, 0
        self._rewind()

    def time(self, steps: int) -> Block:
        """Times one block. The rest of what happens here is not timed."""
        trains = self._program.trains
        unverified = self._kind != "warmup" and self._kind not in self._verified_kinds
        if trains and unverified and self._block == self._verified_before:
            self._verify_updates()
        with self._memory.excluded():
            self._batch = next(self._rotation)
            self._program.select(self._batch)
            # Of training only single steps from the initial weights can be compared.
            keep = self._kind != "warmup" and (not trains or steps == 1) and self._is_chosen()
            if trains and (keep or self._steps + steps > MOST_STEPS):
                self._rewind()
        block = self._clock.time(self._program.step, steps)
        self._steps += steps
        with self._memory.excluded():
            if self._kind != "warmup":
                self._look(block.result, keep)
            elif self._block == 0:
                # What looking compiles or loads at first would leave little time for the blocks of a short series.
                self._program.checksum(block.result)
        self._block += 1
        return block

    def _look(self, result: Any, keep: bool) -> None:
        began = time.perf_counter()
        if keep or self._looking <= LOOKING_SHARE * (began - self._began):
            total = self._program.checksum(result)
            # The sum of opposite infinities is NaN as well.
            nan = isnan(total) and self._program.has_nan(result)
            if self._program.trains and not keep:
                if nan:
                    self.diverged, self._steps = True, MOST_STEPS
            else:
                self.has_nan |= nan
                # A number for each kind and parity, so that a later choice replaces the earlier one.
                sample = (2 if self._kind == "latency" else 0) + self._block % 2
                if not self._program.trains and self._deviates(total):
                    self._deviating += 1
                    keep = keep or self._deviating <= MOST_DEVIATING
                    sample = 4 + self._deviating % MOST_DEVIATING
                if keep:
                    self._keep(result, 1, sample)
        self._looking += time.perf_counter() - began

    def _keep(self, result: Any, steps: int, sample: int) -> None:
        named = self._program.name_arrays(result, self._batch, steps)
        self.arrays |= {f"{name}#{sample}": values for name, values in named.items()}
        if self._program.trains and self._batch == 0:
            # A later choice replaces the earlier one.
            self._keep_state("gradient/")

    def _verify_updates(self) -> None:
        self._verified_kinds.add(self._kind)
        self._batch = 0
        with self._memory.excluded():
            self._program.select(0)
            self._rewind()
        block = self._clock.time(self._program.step, EVIDENCE_STEPS)
        self.verified_ns.append(block.wall_ns / EVIDENCE_STEPS)
        with self._memory.excluded():
            self.has_nan |= isnan(self._program.checksum(block.result))
            named = self._program.name_arrays(block.result, 0, EVIDENCE_STEPS)
            self.arrays |= {f"{name}#{len(self.verified_ns)}": values for name, values in named.items()}
            self._keep_state("update/")
            self._rewind()

    def _keep_state(self, kind: str) -> None:
        self.arrays |= {name: values for name, values in self._program.state().items() if name.startswith(kind)}

    def _rewind(self) -> None:
        self._program.rewind()
        self._steps = 0

    def _is_chosen(self) -> bool:
        """Of every kind, batch and parity one block is kept in the end, each with the same probability."""
        stratum = (self._kind, self._batch, self._block % 2)
        self._seen[stratum] += 1
        return self._random.randrange(self._seen[stratum]) == 0

    def _deviates(self, total: float) -> bool:
        return not isclose(total, self._sums.setdefault(self._batch, total), rel_tol=SUM_TOLERANCE)
