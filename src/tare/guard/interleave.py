"""Measuring one version, or two interleaved: round by round, in an order drawn at random for each pair."""

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import Executor
from tare.execute.runner import Listener, Target, complete, is_pending, ladders, make_record, measure_round
from tare.records.record import Record, Round

# Restarts what the processes of a version share (its fork server), for these cases.
RestartServers = Callable[[Sequence[Case]], None]
# Whether the time for a check is over.
IsOver = Callable[[], bool]
# Whether a case, with the rounds of each version so far, needs no more of them.
IsDecided = Callable[[Case, Sequence[list[Round]]], bool]


class InterimAnalyses(NamedTuple):
    """The numbers of rounds after which each case is looked at, and whether it then stops. `balanced`: see
    `_draw_orders`."""

    looks: Mapping[Case, Sequence[int]]
    is_decided: IsDecided
    balanced: bool = False


def measure_interleaved(
    cases: Mapping[Case, Options],
    versions: Sequence[Target[Executor]],
    listener: Listener,
    restart_servers: RestartServers,
    interim: InterimAnalyses | None = None,
    shared_rounds: int = 1,
    is_over: IsOver = lambda: False,
) -> list[list[Record]]:
    """Measures every case on every version, in as many rounds as its options say, or in fewer if an interim
    analysis decides the case.

    The versions alternate in each round, in random order, so that no change of the machine affects one version
    more than the other: that makes the comparison's test exact. It would not be exact if the rounds of one version
    shared something that those of the other do not, so the servers are restarted for every round. A restart takes
    seconds, and therefore each round covers all cases. Where no alarm depends on the comparison, the first
    `shared_rounds` may share their servers.

    Nothing more is measured once `is_over`. A case that is not complete then has a record of its rounds so far,
    which is not kept in the journal: --resume continues.
    """
    restarted = False
    # Seeded by the run's id, so that a resumed run continues in the same order.
    generator = random.Random(versions[0].journal.run)
    rounds_of_case = {case: options.rounds for case, options in cases.items()}
    listener.planned(rounds_of_case, [version.journal for version in versions])
    ordered = [case for ladder in ladders(cases) for case in ladder]
    balanced = interim is None or interim.balanced
    orders_of = {case: _draw_orders(versions, cases[case].rounds, balanced, generator) for case in ordered}
    for index in takewhile(lambda _: not is_over(), range(max(rounds_of_case.values(), default=0))):
        scheduled = [case for case in ordered if index < cases[case].rounds]
        pending = [c for c in scheduled if any(is_pending(v.own_case(c), index, v.journal) for v in versions)]
        if pending and not (restarted and index < shared_rounds):
            restart_servers(pending)
            restarted = True
        for case in takewhile(lambda _: not is_over(), scheduled):
            options, look = cases[case], index + 1
            for version in orders_of[case][index]:
                measure_round(case, index, options, version, listener)
            # Only now: a node of a fleet may be lost between two versions, and both records come from one node.
            for version in versions:
                complete(case, index, options, version, listener)
            if interim and look in interim.looks[case] and _stops(case, look, versions, interim.is_decided):
                shortened = msgspec.structs.replace(options, rounds=look)
                for version in versions:
                    complete(case, index, shortened, version, listener)
    return [[record for case in cases if (record := _record(case, version, versions))] for version in versions]


def _record(case: Case, version: Target[Executor], versions: Sequence[Target[Executor]]) -> Record | None:
    """The record of a complete case, or one of the rounds that all versions have so far."""
    own = version.own_case(case)
    if record := version.journal.record(own):
        return record
    common = min(len(rounds_so_far(case, each)) for each in versions)
    rounds = version.journal.rounds(own)[:common]
    return make_record(own, rounds, version.environment, version.journal.run) if rounds else None


def rounds_so_far(case: Case, version: Target[Executor]) -> list[Round]:
    own = version.own_case(case)
    record = version.journal.record(own)
    return record.rounds if record else version.journal.rounds(own)


def _draw_orders(
    versions: Sequence[Target[Executor]], rounds: int, balanced: bool, generator: random.Random
) -> list[list[Target[Executor]]]:
    """The order of the versions in each round of a case. `balanced`: of every two rounds, each version is first in
    one (in few rounds, chance would often favour one). Otherwise every round is drawn for itself, which interim
    analyses that may raise an alarm need: their test is exact after any number of rounds."""
    if not balanced or len(versions) == 1:
        return [generator.sample(versions, len(versions)) for _ in range(rounds)]
    orders: list[list[Target[Executor]]] = []
    while len(orders) < rounds:
        drawn = generator.sample(versions, len(versions))
        orders += [drawn, drawn[::-1]]
    return orders[:rounds]


def _stops(case: Case, look: int, versions: Sequence[Target[Executor]], is_decided: IsDecided) -> bool:
    """Decided by the rounds up to this look alone: a run that was interrupted later must decide the same."""
    rounds = [rounds_so_far(case, version)[:look] for version in versions]
    return all(len(of_version) == look for of_version in rounds) and is_decided(case, rounds)
