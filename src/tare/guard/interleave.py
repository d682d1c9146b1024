"""Measuring one version, or two interleaved: round by round, in an order drawn at random for each pair."""

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import Executor
from tare.execute.runner import Listener, Target, advance, is_pending, ladders
from tare.records.record import Record, Round
from tare.stats.two_stage import INTERIM_ROUNDS

# Restarts what the processes of a version share (its fork server), for these cases.
RestartServers = Callable[[Sequence[Case]], None]
# Whether a case, with the rounds of each version so far, can stop at its interim analysis.
IsFutile = Callable[[Case, Sequence[list[Round]]], bool]


def measure_interleaved(
    cases: Mapping[Case, Options],
    versions: Sequence[Target[Executor]],
    listener: Listener,
    restart_servers: RestartServers,
    is_futile: IsFutile | None = None,
) -> list[list[Record]]:
    """Measures every case on every version, in as many rounds as its options say, or in INTERIM_ROUNDS if the case
    is futile by then.

    The versions alternate in each round, in random order, so that no change of the machine affects one version
    more than the other: that makes the comparison's test exact. It would not be exact if the rounds of one version
    shared something that those of the other do not, so the servers are restarted for every round. A restart takes
    seconds, and therefore each round covers all cases.
    """
    # Seeded by the run's id, so that a resumed run continues in the same order.
    generator = random.Random(versions[0].journal.run)
    rounds_of_case = {case: options.rounds for case, options in cases.items()}
    listener.planned(rounds_of_case, [version.journal for version in versions])
    ordered = [case for ladder in ladders(cases) for case in ladder]
    for index in range(max(rounds_of_case.values(), default=0)):
        scheduled = [case for case in ordered if index < cases[case].rounds]
        orders = [generator.sample(versions, len(versions)) for _ in scheduled]
        pending = [case for case in scheduled if any(is_pending(case, index, v.journal) for v in versions)]
        if pending:
            restart_servers(pending)
        for case, order in zip(scheduled, orders, strict=True):
            options = cases[case]
            for version in order:
                advance(case, index, options, version, listener)
            if is_futile and index + 1 == INTERIM_ROUNDS < options.rounds and _stops(case, versions, is_futile):
                shortened = msgspec.structs.replace(options, rounds=INTERIM_ROUNDS)
                for version in versions:
                    advance(case, index, shortened, version, listener)
    return [[record for case in cases if (record := version.journal.record(case))] for version in versions]


def _stops(case: Case, versions: Sequence[Target[Executor]], is_futile: IsFutile) -> bool:
    """Decided by the first INTERIM_ROUNDS rounds alone: a run that was interrupted later must decide the same."""
    rounds = []
    for version in versions:
        record = version.journal.record(case)
        rounds.append((record.rounds if record else version.journal.rounds(case))[:INTERIM_ROUNDS])
    return all(len(of_version) == INTERIM_ROUNDS for of_version in rounds) and is_futile(case, rounds)
