"""Parallel preparation (--jobs N): N cases are prepared at a time, and measured one at a time.

A compiler keeps one core busy and the device idle. The process of a case is prepared while others are, waits at
the measurement gate, and is measured while everything else is stopped. Executables cannot wait there: their files
are staged in parallel, and they are measured afterwards, as are rungs that choose kernels by timing them. How long
a preparation took in parallel with others means nothing, and is not kept.
"""

import contextlib
import os
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.batch_search import OUT_OF_MEMORY
from tare.execute.executor import LocalExecutor
from tare.execute.launch import WorkerProcess
from tare.execute.measurement_gate import GatedProcess, MeasurementGate
from tare.execute.rounds import make_round
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
from tare.execute.supervise import Supervision, WorkerExit, run_worker
from tare.measure.telemetry import Watch
from tare.protocol.jobs import Job, ReferenceJob, StageJob, reference_case
from tare.protocol.messages import Message, Stage
from tare.records.record import Round
from tare.system.home import home
from tare.system.locks import machine_lock

# A round that failed so may have failed because of the others; it is measured again alone.
CAUSED_BY_OTHERS = (*OUT_OF_MEMORY, "signal")
NOTE = "prepared in parallel with other cases: the duration of the preparation is not kept"
# Cases that have to be measured alone should follow the others of their ladder within minutes, not after all of a
# long plan: so many ladders for each job are finished before the next begin.
LADDERS_PER_JOB = 4

# Called now and then by a thread that supervises a worker; raises Cancelled after an interruption.
Check = Callable[[], None]


class Cancelled(Exception):
    """The run was interrupted: the result of this worker is not wanted any more."""


class PendingRound(NamedTuple):
    """With `check`, the round is also compared with the reference."""

    case: Case
    check: bool


Task = PendingRound | ReferenceJob | StageJob


def measure_cases(
    cases: Sequence[Case], options: Options, target: Target[LocalExecutor], listener: Listener
) -> None:
    """Measures what the journal does not have yet, with as many preparations in parallel as `options.jobs`
    says."""
    together = options.jobs == 1 or all(map(target.executor.can_wait_at_gate, cases))
    for portion in portions(cases, options.jobs, together):
        if options.jobs > 1:
            run_parallel(portion, options, target, listener)
        run_cases(portion, options, target, listener)


def portions(cases: Sequence[Case], jobs: int, together: bool) -> list[list[Case]]:
    """Cases that are prepared before those of the next portion: whole ladders, or all `together`."""
    if together:
        return [list(cases)]
    groups, size = ladders(cases), LADDERS_PER_JOB * jobs
    return [[case for ladder in groups[at : at + size] for case in ladder] for at in range(0, len(groups), size)]


def run_parallel(
    cases: Sequence[Case], options: Options, target: Target[LocalExecutor], listener: Listener
) -> None:
    """Measures the rounds whose processes can wait at the gate, and stages the executables of the others, which
    are left to `run_cases`."""
    for index in range(options.rounds):
        tasks = order_tasks(cases, index, options, target.executor, target.journal)
        if not tasks:
            continue
        listener.stage_changed(f"preparing {len(tasks)}, {options.jobs} at a time")
        with contextlib.closing(_GatedTasks(tasks, index, options, target.executor).run()) as results:
            for finished, (case, round_) in enumerate(results, 1):
                listener.stage_changed(f"{finished} of {len(tasks)} prepared, {options.jobs} at a time")
                if round_ and not (round_.failure and round_.failure.cause in CAUSED_BY_OTHERS):
                    save_round(case, round_, target.journal, listener)
                    advance(case, index, options, target, listener)


def order_tasks(
    cases: Sequence[Case], index: int, options: Options, executor: LocalExecutor, journal: Journal
) -> list[Task]:
    """A few ladders after another, so that the rungs of each are measured within a minute or so. Of those few, the
    slowest preparations first; and before the rest of them, the references of the next few."""
    pending = ladders(case for case in cases if is_pending(case, index, journal))
    # Each task with its place. Ladders that differ in feed or layout share a reference.
    tasks: dict[Task, tuple[int, int]] = {}
    for number, ladder in enumerate(pending):
        few = number // options.jobs
        for case in ladder:
            check = not has_parity(journal.rounds(case))
            for job in executor.jobs_ahead(case, options, check):
                tasks.setdefault(job, (few - 1, 1) if isinstance(job, ReferenceJob) else (few, 0))
            if executor.can_wait_at_gate(case):
                tasks[PendingRound(case, check)] = (few, 0 if preparation_cost(case) else 2)
    return sorted(tasks, key=lambda task: tasks[task])


class _GatedTasks:
    """The tasks of one round that share the measurement gate."""

    def __init__(self, tasks: Sequence[Task], index: int, options: Options, executor: LocalExecutor) -> None:
        self._tasks, self._index, self._options, self._executor = tasks, index, options, executor
        self._gate = MeasurementGate(enough=max(options.jobs // 2, 1))
        self._pids: set[int] = set()
        # For each reference that is made here: set when its worker has ended, well or not.
        self._reference_tried = {
            task.case.key: threading.Event() for task in tasks if isinstance(task, ReferenceJob)
        }
        self._cores = max((os.cpu_count() or 1) // options.jobs, 1)

    def run(self) -> Generator[tuple[Case, Round | None], None, None]:
        """Yields the case of every task that has ended. A round that has to be measured alone is None."""
        with worker_threads(self._executor, self._options.jobs) as (pool, check):
            futures = {pool.submit(self._run, task, check): task for task in self._tasks}
            for future in as_completed(futures):
                yield futures[future].case, future.result()

    def _run(self, task: Task, check: Check) -> Round | None:
        gated = GatedProcess(self._executor.scratch / "gate" / uuid.uuid4().hex)
        try:
            if isinstance(task, PendingRound):
                return self._measure(task, gated, check)
            worker_exit = self._supervise(msgspec.structs.replace(task, cores=self._cores), gated, check)
            self._executor.keep_ahead(task, worker_exit, self._options)
            if isinstance(task, ReferenceJob):
                self._reference_tried[task.case.key].set()
            return None
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
        job = msgspec.structs.replace(job, gate=str(gated.pipe), cores=self._cores)
        watch = Watch(self._executor.gpu(pending.case.device))

        def on_tick() -> None:
            check()
            if gated.is_measuring:
                watch.poll()

        def on_message(message: Message) -> None:
            if isinstance(message, Stage) and message.name == "gate":
                self._gate.prepared(gated)
            elif isinstance(message, Stage) and message.name == "report":
                self._gate.measured(gated)

        worker_exit = self._supervise(job, gated, on_tick, on_message, watch.start)
        round_ = make_round(worker_exit, watch, self._index, set(self._pids))
        return msgspec.structs.replace(round_, build_s=None, prepare_s=None, notes=[*round_.notes, NOTE])

    def _supervise(
        self,
        job: Job,
        gated: GatedProcess,
        on_tick: Check,
        on_message: Callable[[Message], None] = lambda _: None,
        on_pid: Callable[[int], None] = lambda _: None,
    ) -> WorkerExit:
        def on_start(process: WorkerProcess) -> None:
            on_pid(process.pid)
            self._pids.add(process.pid)
            self._gate.started(gated, process.reaper)

        self._gate.enter(gated, on_tick)
        timeout_s, memory = self._options.timeout, self._options.memory
        supervision = Supervision(timeout_s, memory, on_start, on_tick, on_message, lambda: gated.is_paused)
        return run_worker(self._executor.launcher, job, supervision)


def stage_ahead(executor: LocalExecutor, cases: Sequence[Case], options: Options) -> None:
    """Stages the executables of cases in parallel, for a caller that needs no references."""
    if options.jobs > 1:
        jobs = dict.fromkeys(job for case in cases for job in executor.jobs_ahead(case, options, check=False))
        for _ in _GatedTasks(list(jobs), 0, options, executor).run():
            pass


@contextlib.contextmanager
def worker_threads(executor: LocalExecutor, count: int) -> Iterator[tuple[ThreadPoolExecutor, Check]]:
    """Threads that each supervise a worker, with the machine's lock held. They have to call the check now and
    then: it raises Cancelled after an interruption or another exception in the context."""
    is_cancelled = threading.Event()

    def check() -> None:
        if is_cancelled.is_set():
            raise Cancelled

    with machine_lock(home(), executor.say_wait), ThreadPoolExecutor(count) as pool:
        try:
            yield pool, check
        except BaseException:
            is_cancelled.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
