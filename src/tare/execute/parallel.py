"""Parallel preparation (--jobs N): N cases are prepared at a time, and measured one at a time.

A compiler keeps one core busy and the device idle. The process of a case is prepared while others are, waits at
the measurement gate, and is measured while everything else is stopped. Executables cannot wait there: their files
are staged in parallel, and they are measured afterwards, as are rungs that choose kernels by timing them. How long
a preparation took in parallel with others means nothing, and is not kept.
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.batch_search import OUT_OF_MEMORY
from tare.execute.executor import WAITING, LaunchableJob, LocalExecutor
from tare.execute.launch import CannotStart, SpawnLauncher, WorkerProcess
from tare.execute.measurement_gate import Cancelled, GatedProcess, MeasurementGate
from tare.execute.rounds import make_round, now
from tare.execute.runner import (
    Journal,
    Listener,
    Target,
    advance,
    has_parity,
    is_pending,
    ladders,
    preparation_cost,
    run_cases,
    save_round,
)
from tare.execute.supervise import Supervision, WorkerExit, supervise
from tare.protocol.jobs import Job, ReferenceJob, StageJob, reference_case
from tare.protocol.messages import Failed, Message, Stage
from tare.records.record import BatchSearch, Failure, Record, Round
from tare.system.home import home
from tare.system.locks import machine_lock
from tare.worker.preparation import COMPILE_THREADS

# A round that failed so may have failed because of the others; it is measured again alone.
CAUSED_BY_OTHERS = (*OUT_OF_MEMORY, "signal")
NOTE = "prepared in parallel with other cases: the duration of the preparation is not kept"
# Cases that have to be measured alone should follow the others of their ladder within minutes, not after all of a
# long plan: so many ladders for each job are finished before the next begin.
LADDERS_PER_JOB = 4

Result = TypeVar("Result")
Check = Callable[[], None]


class _FirstFailure(Exception):
    """A case failed, and --fail-fast was given."""


class PendingRound(NamedTuple):
    """With `check`, the round is also compared with the reference."""

    case: Case
    check: bool


Task = PendingRound | ReferenceJob | StageJob


def measure_cases(
    cases: Sequence[Case],
    options: Options,
    target: Target[LocalExecutor],
    listener: Listener,
    fail_fast: bool = False,
    searches: Mapping[Case, BatchSearch] | None = None,
) -> list[Record]:
    """Measures what the journal does not have yet, with as many preparations in parallel as `options.jobs`
    says."""
    if options.jobs == 1:
        return run_cases(cases, options, target, listener, fail_fast, searches)
    records: list[Record] = []
    for portion in portions(cases, options.jobs, all(map(target.executor.can_wait_at_gate, cases))):
        if not run_parallel(portion, options, target, listener, fail_fast, searches):
            break
        records += run_cases(portion, options, target, listener, fail_fast, searches)
        if fail_fast and any(record.failed for record in records):
            break
    return records


def portions(cases: Sequence[Case], jobs: int, together: bool) -> list[list[Case]]:
    """Cases that are prepared before those of the next portion: whole ladders, or all `together`."""
    if together:
        return [list(cases)]
    groups, size = ladders(cases), LADDERS_PER_JOB * jobs
    return [[case for ladder in groups[at : at + size] for case in ladder] for at in range(0, len(groups), size)]


def run_parallel(
    cases: Sequence[Case],
    options: Options,
    target: Target[LocalExecutor],
    listener: Listener,
    fail_fast: bool = False,
    searches: Mapping[Case, BatchSearch] | None = None,
) -> bool:
    """Measures the rounds whose processes can wait at the gate, and stages the executables of the others, which
    are left to `run_cases`. False if a failure has ended it, with `fail_fast`."""
    journal = target.journal
    for index in range(options.rounds):
        tasks = order_tasks(cases, index, options, target.executor, journal)
        total, finished = len(tasks), 0

        def keep(task: Task, round_: Round | None, index: int = index, total: int = total) -> None:
            nonlocal finished
            finished += 1
            listener.stage_changed(f"{finished} of {total} prepared, {options.jobs} at a time")
            caused_by_others = round_ and round_.failure and round_.failure.cause in CAUSED_BY_OTHERS
            if not isinstance(task, PendingRound) or round_ is None or caused_by_others:
                return
            save_round(task.case, round_, journal, listener)
            search = (searches or {}).get(task.case)
            record = advance(task.case, index, options, target, listener, search)
            if fail_fast and record is not None and record.failed:
                raise _FirstFailure

        try:
            if tasks:
                listener.stage_changed(f"preparing {total}, {options.jobs} at a time")
                _ParallelTasks(tasks, index, options, target.executor).run(keep)
        except _FirstFailure:
            return False
    return True


@dataclass
class _Portion:
    references: list[Task] = field(default_factory=list)
    slow: list[Task] = field(default_factory=list)
    quick: list[Task] = field(default_factory=list)


def order_tasks(
    cases: Sequence[Case], index: int, options: Options, executor: LocalExecutor, journal: Journal
) -> list[Task]:
    """A few ladders after another, so that the rungs of each are measured within a minute or so. Of those few, the
    slowest preparations first; and before the rest of them, the references of the next few."""
    pending = ladders(case for case in cases if is_pending(case, index, journal))
    portions: list[_Portion] = []
    # Ladders that differ in feed or layout share a reference.
    seen: set[ReferenceJob | StageJob] = set()
    for at in range(0, len(pending), options.jobs):
        portions.append(portion := _Portion())
        for case in (case for ladder in pending[at : at + options.jobs] for case in ladder):
            check = not has_parity(journal.rounds(case))
            for job in executor.jobs_ahead(case, options, check):
                if job not in seen:
                    seen.add(job)
                    (portion.references if isinstance(job, ReferenceJob) else portion.slow).append(job)
            if executor.can_wait_at_gate(case):
                tasks = portion.slow if preparation_cost(case) else portion.quick
                tasks.append(PendingRound(case, check))
    order = [job for portion in portions[:1] for job in portion.references]
    for portion, following in zip(portions, [*portions[1:], _Portion()], strict=False):
        order += [*portion.slow, *following.references, *portion.quick]
    return order


class _ParallelTasks:
    """The tasks of one round that share the measurement gate."""

    def __init__(self, tasks: list[Task], index: int, options: Options, executor: LocalExecutor) -> None:
        self._tasks, self._index, self._options, self._executor = tasks, index, options, executor
        self._gate = MeasurementGate(enough=max(options.jobs // 2, 1))
        self._pids: set[int] = set()
        # For each reference that is made here: set when its worker has ended, well or not.
        self._reference_tried = {
            task.case.key: threading.Event() for task in tasks if isinstance(task, ReferenceJob)
        }

    def run(self, keep: Callable[[Task, Round | None], None]) -> None:
        """`keep` is called for every task; a round that has to be measured alone is None."""

        def finished(at: int, result: Round | WorkerExit | None) -> None:
            task = self._tasks[at]
            if isinstance(result, WorkerExit):
                assert not isinstance(task, PendingRound)
                self._executor.keep_ahead(task, result, self._options)
                if isinstance(task, ReferenceJob):
                    self._reference_tried[task.case.key].set()
                keep(task, None)
            else:
                keep(task, result)

        on_wait = lambda: self._executor.on_stage(WAITING)  # noqa: E731
        run_in_threads(len(self._tasks), self._options.jobs, self._run, finished, on_wait, self._gate.cancel)

    def _run(self, at: int, check: Check) -> Round | WorkerExit | None:
        task = self._tasks[at]
        gated = GatedProcess(self._executor.gate_folder / str(at))
        try:
            if isinstance(task, PendingRound):
                return self._measure(task, gated, check)
            return self._supervise(self._launch(task, gated), gated, check, lambda _: None)
        finally:
            self._gate.ended(gated)
            gated.close()

    def _measure(self, pending: PendingRound, gated: GatedProcess, check: Check) -> Round | None:
        tried = self._reference_tried.get(reference_case(pending.case).key)
        while tried and not tried.wait(0.1):
            check()
        job = self._executor.gated_job(pending.case, self._index, self._options, pending.check)
        if job is None:
            return None
        gate = str(gated.pipe)
        process = self._launch(
            msgspec.structs.replace(job, gate=gate, compile_threads=_threads(self._options.jobs)), gated
        )
        started, watch = now(), self._executor.watch(pending.case.device, process.pid)

        def on_tick() -> None:
            check()
            if gated.is_measuring:
                watch.poll()

        def on_message(message: Message) -> None:
            if isinstance(message, Stage) and message.name == "gate":
                self._gate.prepared(gated)
            elif isinstance(message, Stage) and message.name == "report":
                self._gate.measured(gated)

        worker_exit = self._supervise(process, gated, on_tick, on_message)
        isolation, timeout_s = self._executor.launcher.isolation, self._options.timeout
        round_ = make_round(worker_exit, watch, self._index, started, isolation, timeout_s, set(self._pids))
        return msgspec.structs.replace(round_, build_s=None, prepare_s=None, notes=[*round_.notes, NOTE])

    def _launch(self, job: Job, gated: GatedProcess) -> WorkerProcess:
        launcher = self._executor.launcher
        if isinstance(job, ReferenceJob):
            job = msgspec.structs.replace(job, parallel=True)
        elif isinstance(job, StageJob):
            launcher = _stage_launcher(self._options.jobs)
        self._gate.enter(gated)
        process = launcher.launch(job)
        self._gate.started(gated, process.pid)
        self._pids.add(process.pid)
        return process

    def _supervise(
        self, process: WorkerProcess, gated: GatedProcess, on_tick: Check, on_message: Callable[[Message], None]
    ) -> WorkerExit:
        timeout_s, memory = self._options.timeout, self._options.memory
        return supervise(process, Supervision(timeout_s, memory, on_tick, on_message, lambda: gated.is_paused))


def stage_ahead(executor: LocalExecutor, cases: Sequence[Case], options: Options) -> None:
    """Stages the executables of cases in parallel, for a caller that needs no references and no gate."""
    if options.jobs == 1:
        return
    jobs = list(dict.fromkeys(job for case in cases for job in executor.jobs_ahead(case, options, check=False)))
    launcher = _stage_launcher(options.jobs)
    run_jobs(
        [LaunchableJob(job, launcher) for job in jobs],
        options,
        lambda at, worker_exit: executor.keep_ahead(jobs[at], worker_exit, options),
        lambda: executor.on_stage(WAITING),
    )


def run_jobs(
    jobs: Sequence[LaunchableJob],
    options: Options,
    finished: Callable[[int, WorkerExit], None],
    on_wait: Check = lambda: None,
) -> None:
    """Runs jobs that measure nothing, `options.jobs` at a time; `finished` hears of each by its position. An
    interruption ends them all."""

    def run(at: int, check: Check) -> WorkerExit:
        job, launcher = jobs[at]
        try:
            process = launcher.launch(job)
        except CannotStart as error:
            # The missing program of one plug-in must not end the other jobs.
            failed = Failed(failure=Failure(cause="not-installed", message=str(error), stage="start"))
            return WorkerExit(0, None, [failed], "", 0.0, 0)
        return supervise(process, Supervision(options.timeout, options.memory, check))

    run_in_threads(len(jobs), options.jobs, run, finished, on_wait)


def _stage_launcher(jobs: int) -> SpawnLauncher:
    """Limits the compilers of AOTInductor, which read this variable when they are imported."""
    return SpawnLauncher(variables={COMPILE_THREADS: str(_threads(jobs))})


def _threads(jobs: int) -> int:
    return max((os.cpu_count() or 1) // jobs, 1)


def run_in_threads(
    count: int,
    at_once: int,
    run: Callable[[int, Check], Result],
    finished: Callable[[int, Result], None],
    on_wait: Check = lambda: None,
    cancel: Check = lambda: None,
) -> None:
    """Calls `run` for each position in a thread, `at_once` at a time, with the machine's lock held. `run` gets a
    check to call now and then, which raises Cancelled after an interruption; `cancel` is called then too."""
    is_cancelled = threading.Event()

    def check() -> None:
        if is_cancelled.is_set():
            raise Cancelled

    def run_one(at: int) -> Result:
        check()
        return run(at, check)

    with machine_lock(home(), on_wait), ThreadPoolExecutor(at_once) as pool:
        futures = {pool.submit(run_one, at): at for at in range(count)}
        try:
            for future in as_completed(futures):
                finished(futures[future], future.result())
        except BaseException:
            is_cancelled.set()
            cancel()
            raise
