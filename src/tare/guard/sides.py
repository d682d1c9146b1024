"""Measuring one version, or two of them side by side: round by round, in an order drawn for each pair."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import Executor
from tare.execute.ladder import schedule
from tare.execute.runner import Journal, Listener, advance
from tare.records.environment import Environment
from tare.records.record import Record


class Side(NamedTuple):
    """One version of what is measured: who runs its rounds, where, and who keeps them."""

    executor: Executor
    environment: Environment
    journal: Journal


def measure_sides(
    cases: Sequence[Case], options: Options, sides: Sequence[Side], listener: Listener
) -> list[list[Record]]:
    """Every case on every side. The sides take turns in each round, in random order: whatever the machine does
    meanwhile, it cannot tell the versions apart, and that is what makes the comparison's test exact."""
    # Drawn from the run's own id, so that a resumed run goes on in the order in which it began.
    drawn = random.Random(sides[0].journal.run)
    for case, index in schedule(cases, options.rounds):
        order = drawn.sample(range(len(sides)), len(sides))
        for side in (sides[i] for i in order):
            advance(case, index, options, side.environment, side.executor, side.journal, listener)
    return [[record for case in cases if (record := side.journal.record(case))] for side in sides]
