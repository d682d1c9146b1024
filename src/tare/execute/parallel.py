"""Rounds of many cases abreast: their processes are prepared side by side and measured one at a time.

A compiler keeps one core busy and the device idle; a step, the reverse. How long a preparation took beside others
says nothing, and is not kept. What it left to be measured is what a process alone would have made.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.batch_search import MEMORY
from tare.execute.concurrent import cores_each, side_by_side
from tare.execute.executor import LocalExecutor
from tare.execute.launch import Process
from tare.execute.measurement_gate import Lane, Turnstile
from tare.execute.rounds import now, watched_round
from tare.execute.runner import Journal, Listener, Side, advance, is_due, is_proved, keep_round
from tare.execute.schedule import ladders
from tare.execute.supervise import Ending, Watchman, supervise
from tare.protocol.jobs import Job, ReferenceJob, reference_case
from tare.protocol.messages import Message, Stage
from tare.records.record import BatchSearch, Round
from tare.rungs import get_rung

# What may be a matter of those beside it: such a round is measured again, alone.
CROWDED = (*MEMORY, "signal")
NOTE = "prepared beside others: how long that took is not kept"

Look = Callable[[], None]


class _Stopped(Exception):
    """A case failed, and nothing more is wanted then."""


class Due(NamedTuple):
    """A case whose round is to be measured; `check` asks for the proof of parity as well."""

    case: Case
    check: bool


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
        due = in_order(cases, index, options, executor, journal)
        count, ended = sum(isinstance(one, Due) for one in due), 0

        def keep(case: Case, made: Round | None, index: int = index, count: int = count) -> None:
            nonlocal ended
            ended += 1
            tell(f"abreast: {ended} of {count} measured")
            if made is None or (made.failure and made.failure.cause in CROWDED):
                return
            keep_round(case, made, journal, listener)
            search = (searches or {}).get(case)
            record = advance(case, index, options, side, listener, search)
            if fail_fast and record is not None and record.failed:
                raise _Stopped

        tell(f"abreast: 0 of {count} measured")
        try:
            _Company(due, index, options, executor).work(keep, lambda: tell("waiting for another tare"))
        except _Stopped:
            return False
    return True


def in_order(
    cases: list[Case], index: int, options: Options, executor: LocalExecutor, journal: Journal
) -> list[Due | ReferenceJob]:
    """A few ladders after another, so that the rungs of each are measured within a minute or so. Of those few,
    first what takes longest to prepare; and before the rest of them, what the next few will be compared with."""
    wanted = [case for case in cases if is_due(case, index, journal) and executor.goes_beside(case)]
    found, few = ladders(wanted), options.abreast
    groups = [
        [Due(case, not is_proved(journal.rounds(case))) for ladder in found[at : at + few] for case in ladder]
        for at in range(0, len(found), few)
    ]
    # Ladders that differ in feed or layout share one.
    seen: set[ReferenceJob] = set()
    ahead: list[list[ReferenceJob]] = []
    for group in groups:
        jobs = (executor.reference_beside(case, options) for case, check in group if check)
        ahead.append([job for job in dict.fromkeys(jobs) if job and job not in seen])
        seen.update(ahead[-1])
    first, *later = ahead or [[]]
    order: list[Due | ReferenceJob] = [*first]
    for group, of_the_next in zip(groups, [*later, []], strict=False):
        slow = [due for due in group if get_rung(due.case.rung).caches]
        order += [*slow, *of_the_next, *(due for due in group if due not in slow)]
    return order


class _Company:
    """Those that are prepared beside each other in one round."""

    def __init__(
        self, due: list[Due | ReferenceJob], index: int, options: Options, executor: LocalExecutor
    ) -> None:
        self._due, self._index, self._options, self._executor = due, index, options, executor
        self._turnstile = Turnstile(enough=max(options.abreast // 2, 1))
        self._pids: set[int] = set()
        # Of each reference that is made here: whether that has ended, well or not.
        self._tried = {one.case.key: threading.Event() for one in due if isinstance(one, ReferenceJob)}

    def work(self, keep: Callable[[Case, Round | None], None], on_wait: Look) -> None:
        """`keep` hears of every case, also of one that has to be measured alone: it has no round."""

        def ended(at: int, made: Round | Ending | None) -> None:
            one = self._due[at]
            if isinstance(made, Ending):
                assert isinstance(one, ReferenceJob)
                self._executor.prepared_ahead(one, made, self._options)
                self._tried[one.case.key].set()
            else:
                keep(one.case, made)

        side_by_side(len(self._due), self._options.abreast, self._run, ended, on_wait, self._turnstile.abandon)

    def _run(self, at: int, look: Look) -> Round | Ending | None:
        one = self._due[at]
        lane = Lane(self._executor.turns / str(at))
        try:
            return self._measure(one, lane, look) if isinstance(one, Due) else self._refer(one, lane, look)
        finally:
            self._turnstile.leaves(lane)
            lane.close()

    def _refer(self, job: ReferenceJob, lane: Lane, look: Look) -> Ending:
        return self._supervise(self._launch(job, lane), lane, look, lambda _: None)

    def _measure(self, due: Due, lane: Lane, look: Look) -> Round | None:
        tried = self._tried.get(reference_case(due.case).key)
        while tried and not tried.wait(0.1):
            look()
        job = self._executor.job_beside(due.case, self._index, self._options, due.check)
        if job is None:
            return None
        cores = cores_each(self._options.abreast)
        process = self._launch(msgspec.structs.replace(job, gate=str(lane.pipe), compile_threads=cores), lane)
        started, watch = now(), self._executor.watch(due.case.device, process.pid)

        def tick() -> None:
            look()
            if lane.measures:
                watch.poll()

        def hear(message: Message) -> None:
            if isinstance(message, Stage) and message.name == "gate":
                self._turnstile.waits(lane)
            elif isinstance(message, Stage) and message.name == "report":
                self._turnstile.has_measured(lane)

        ending = self._supervise(process, lane, tick, hear)
        isolation, timeout = self._executor.launcher.isolation, self._options.timeout
        done = watched_round(ending, watch, self._index, started, isolation, timeout, set(self._pids))
        return msgspec.structs.replace(done, build_s=None, prepare_s=None, notes=[*done.notes, NOTE])

    def _launch(self, job: Job, lane: Lane) -> Process:
        self._turnstile.enter(lane)
        process = self._executor.launcher.launch(job)
        self._turnstile.started(lane, process.pid)
        self._pids.add(process.pid)
        return process

    def _supervise(self, process: Process, lane: Lane, tick: Look, hear: Callable[[Message], None]) -> Ending:
        options = self._options
        return supervise(process, Watchman(options.timeout, options.memory, tick, hear, lambda: lane.stands_still))
