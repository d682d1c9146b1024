"""Measuring one version, or two of them side by side: round by round, in an order drawn for each pair."""

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import Executor
from tare.execute.runner import Journal, Listener, Side, advance
from tare.execute.schedule import ladders
from tare.records.record import Record, Round
from tare.stats.two_stage import INTERIM_ROUNDS

# Makes anew what the processes of a side share, for these cases.
Renew = Callable[[Sequence[Case]], None]
# Whether a case, with so many rounds of each side, need not have the others that were planned for it.
LetGo = Callable[[Case, Sequence[list[Round]]], bool]


def measure_sides(
    cases: Mapping[Case, Options],
    sides: Sequence[Side[Executor]],
    listener: Listener,
    renew: Renew,
    let_go: LetGo | None = None,
) -> list[list[Record]]:
    """Every case on every side, each in as many rounds as its options say, or in INTERIM_ROUNDS if it is then let go.

    The sides take turns in each round, in random order: whatever the machine does meanwhile, it cannot tell the
    versions apart, and that is what makes the comparison's test exact. It would not be if all rounds of a side had
    something in common that those of the other have not; so what the processes of a side share is made anew for
    every round. That takes seconds, and therefore a round is one of all cases.
    """
    # Drawn from the run's own id, so that a resumed run goes on in the order in which it began.
    drawn = random.Random(sides[0].journal.run)
    listener.plans({case: options.rounds for case, options in cases.items()}, [side.journal for side in sides])
    in_order = [case for ladder in ladders(cases) for case in ladder]
    for index in range(max((options.rounds for options in cases.values()), default=0)):
        due = [case for case in in_order if index < cases[case].rounds]
        orders = [drawn.sample(range(len(sides)), len(sides)) for _ in due]
        missing = [case for case in due if any(_is_missing(side.journal, case, index) for side in sides)]
        if missing:
            renew(missing)
        for case, order in zip(due, orders, strict=True):
            options = cases[case]
            _advance(case, index, options, [sides[i] for i in order], listener)
            if let_go and index + 1 == INTERIM_ROUNDS < options.rounds and _is_hopeless(case, sides, let_go):
                _advance(case, index, msgspec.structs.replace(options, rounds=INTERIM_ROUNDS), sides, listener)
    return [[record for case in cases if (record := side.journal.record(case))] for side in sides]


def _advance(
    case: Case, index: int, options: Options, sides: Sequence[Side[Executor]], listener: Listener
) -> None:
    for side in sides:
        advance(case, index, options, side, listener)


def _is_hopeless(case: Case, sides: Sequence[Side[Executor]], let_go: LetGo) -> bool:
    """By the rounds until the look alone: a run that was interrupted later must come to the same answer."""
    rounds = [_rounds(side.journal, case)[:INTERIM_ROUNDS] for side in sides]
    return all(len(each) == INTERIM_ROUNDS for each in rounds) and let_go(case, rounds)


def _rounds(journal: Journal, case: Case) -> list[Round]:
    record = journal.record(case)
    return record.rounds if record else journal.rounds(case)


def _is_missing(journal: Journal, case: Case, index: int) -> bool:
    return journal.record(case) is None and index >= len(journal.rounds(case))
