"""Rounds of many cases abreast: their processes are prepared side by side and measured one at a time.

A compiler keeps one core busy and the device idle; a step, the reverse. How long a preparation took beside others
says nothing, and is not kept. What it left to be measured is what a process alone would have made.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.batch import MEMORY
from tare.execute.executor import LocalExecutor
from tare.execute.jobs import RoundJob
from tare.execute.ladder import ladders
from tare.execute.outcome import now, watched_round
from tare.execute.protocol import Message, Stage
from tare.execute.runner import Journal, Listener, Side, advance, is_due, is_proved, keep_round
from tare.execute.supervise import Watchman, supervise
from tare.execute.together import cores_each, side_by_side
from tare.execute.turns import Lane, Turnstile
from tare.records.record import BatchSearch, Round
from tare.rungs import get_rung

# What may be a matter of those beside it: such a round is measured again, alone.
CROWDED = (*MEMORY, "signal")
NOTE = "prepared beside others: how long that took is not kept"


class _Stopped(Exception):
    """A case failed, and nothing more is wanted then."""


class _Due(NamedTuple):
    case: Case
    job: RoundJob


def run_abreast(
    cases: Iterable[Case],
    options: Options,
    side: Side[LocalExecutor],
    listener: Listener,
    fail_fast: bool = False,
    searches: Mapping[Case, BatchSearch] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> bool:
    """Measures what can be measured so, of what the journal does not have yet; the rest is left to `run_cases`.
    False where a failure has ended it, which `fail_fast` asks for."""
    cases = list(cases)
    executor, _, journal = side
    for index in range(options.rounds):
        due = _due(cases, index, options, executor, journal)
        ended = 0

        def keep(at: int, made: Round, due: list[_Due] = due, index: int = index) -> None:
            nonlocal ended
            ended += 1
            tell(f"abreast: {ended} of {len(due)} measured")
            if made.failure and made.failure.cause in CROWDED:
                return
            case = due[at].case
            keep_round(case, made, journal, listener)
            search = (searches or {}).get(case)
            record = advance(case, index, options, side, listener, search)
            if fail_fast and record is not None and record.failed:
                raise _Stopped

        tell(f"abreast: 0 of {len(due)} measured")
        try:
            _measure(due, index, options, executor, keep, tell)
        except _Stopped:
            return False
    return True


def _due(cases: list[Case], index: int, options: Options, executor: LocalExecutor, journal: Journal) -> list[_Due]:
    """A few ladders after another, so that the rungs of each are measured within a minute or so; of those few,
    first what takes longest to prepare."""
    found = []
    for at, ladder in enumerate(ladders(cases)):
        for case in ladder:
            if is_due(case, index, journal):
                job = executor.job_beside(case, index, options, not is_proved(journal.rounds(case)))
                quick = not get_rung(case.rung).caches
                found += [(at // options.abreast, quick, _Due(case, job))] if job else []
    return [due for _, _, due in sorted(found, key=lambda one: one[:2])]


def _measure(
    due: list[_Due],
    index: int,
    options: Options,
    executor: LocalExecutor,
    keep: Callable[[int, Round], None],
    tell: Callable[[str], None],
) -> None:
    turnstile = Turnstile(enough=max(options.abreast // 2, 1))
    ours: set[int] = set()

    def run(at: int, look: Callable[[], None]) -> Round:
        case, job = due[at]
        lane = Lane(executor.turns / str(at))

        def hear(message: Message) -> None:
            if isinstance(message, Stage) and message.name == "turn":
                turnstile.waits(lane)
            elif isinstance(message, Stage) and message.name == "report":
                turnstile.has_measured(lane)

        try:
            turnstile.enter(lane)
            started = now()
            beside = msgspec.structs.replace(job, turn=str(lane.pipe), cores=cores_each(options.abreast))
            process = executor.launcher.launch(beside)
            turnstile.started(lane, process.pid)
            ours.add(process.pid)
            watch = executor.watch(case.device, process.pid)

            def tick() -> None:
                look()
                if lane.measures:
                    watch.poll()

            still = lambda: lane.stands_still  # noqa: E731
            ending = supervise(process, Watchman(options.timeout, options.memory, tick, hear, still))
        finally:
            turnstile.leaves(lane)
            lane.close()
        isolation = executor.launcher.isolation
        done = watched_round(ending, watch, index, started, isolation, options.timeout, set(ours))
        return msgspec.structs.replace(done, build_s=None, prepare_s=None, notes=[*done.notes, NOTE])

    side_by_side(len(due), options.abreast, run, keep, lambda: tell("waiting for another tare"), turnstile.abandon)
