"""The local executor: runs jobs in supervised worker processes, and turns a worker's exit into a round."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import TareError
from tare.execute.launch import Launcher, SpawnLauncher
from tare.execute.rounds import Answer, answer_of, make_round, unchecked
from tare.execute.supervise import Supervision, WorkerExit, run_worker
from tare.measure.nvml import Gpu
from tare.measure.telemetry import Watch
from tare.protocol.jobs import CheckJob, Job, ProbeJob, ReferenceJob, RoundJob, StageJob, reference_case
from tare.protocol.messages import Checked, Message, Prepared, Probed, Stage
from tare.records.record import Failure, Parity, Round
from tare.rungs import get_rung
from tare.rungs.native.rung import NativeRung
from tare.rungs.registry import split_name
from tare.system.home import home, make_folder
from tare.system.locks import machine_lock

BUILDING = "building the C++ rungs, once: about a minute"
COMPILING = "compiling: seconds to minutes"
EXPORTING = "exporting for C++: seconds to minutes"
REFERENCE = "computing the float64 reference"
WAITING = "waiting for another tare"

OnStage = Callable[[str], None]


class Executor(Protocol):
    """What the runner needs. The tests have a mock that measures nothing."""

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round: ...


class RungWorker(NamedTuple):
    """What starts the workers of a case's rung; the folder of the files staged for them, and what that took."""

    launcher: Launcher
    stage: str | None = None
    staged: Prepared = Prepared(build_s=0.0, prepare_s=0.0, cache="none")


def executable_rung(case: Case) -> NativeRung | None:
    """The case's rung, if its worker is an executable."""
    rung = get_rung(case.rung)
    return rung if isinstance(rung, NativeRung) and rung.is_executable(case) else None


class LocalExecutor:
    def __init__(self, launcher: Launcher, scratch: Path, on_stage: OnStage = lambda _: None) -> None:
        self.launcher = launcher
        self.scratch = scratch
        self.on_stage = on_stage
        self._gpus: dict[str, str] = {}
        # References and staged files are made once a run. A failure is kept too: it would only repeat itself.
        self._made: dict[ReferenceJob | StageJob, Prepared | Failure] = {}
        self._failed_builds: dict[tuple[str, str], TareError] = {}
        self._cold_counted: set[str] = set()

    def probe(self, subject: str = "this machine") -> Probed:
        """What this machine has, as its version of torch sees it; the first thing to ask."""
        self.on_stage(f"looking at {subject}")
        probed = self.ask(ProbeJob(), Probed, Options())
        if isinstance(probed, Failure):
            raise TareError(f"cannot look at this machine: {probed.message}")
        self._gpus = probed.gpus
        return probed

    def ask(
        self, job: Job, answer: type[Answer], options: Options, launcher: Launcher | None = None
    ) -> Answer | Failure:
        """The message that answers a job other than a round (at least `Done`), or why there is none."""
        return answer_of(self._run(job, options, launcher), answer)

    def request(
        self, job: Job, answer: type[Answer], options: Options, launcher: Launcher | None = None
    ) -> Answer:
        """As `ask`, where a failure is an error: TareError."""
        message = self.ask(job, answer, options, launcher)
        if isinstance(message, Failure):
            raise TareError(f"{message.stage or 'the worker'} failed: {message.cause}, {message.message}")
        return message

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:
        """One fresh process that measures one case. With `check` it is also compared with the reference."""
        reference, failure = None, None
        if check and options.parity:
            reference_job = self.reference_job(case, options)
            made = self.run_once(reference_job, options)
            failure = made if isinstance(made, Failure) else None
            reference = None if failure else reference_job.folder
        job = self._round_job(case, index, options, reference)
        measure = self._run_executable if executable_rung(case) else self._measure
        round_ = measure(job, index, options)
        return msgspec.structs.replace(round_, parity=unchecked(failure)) if failure else round_

    def run_program(self, command: tuple[str, ...], case: Case, index: int, options: Options) -> Round:
        """A round of an executable that is no rung and needs no staged files."""
        job = RoundJob(case=case, budget_s=options.round_budget, width=options.width)
        return self._measure(job, index, options, SpawnLauncher(command, "executable"))

    def run_once(self, job: ReferenceJob | StageJob, options: Options) -> Prepared | Failure:
        """Makes a reference or staged files, unless this run has them or has failed to make them."""
        if job not in self._made:
            self.on_stage(REFERENCE if isinstance(job, ReferenceJob) else EXPORTING)
            self._made[job] = self.ask(job, Prepared, options)
        return self._made[job]

    # What can be prepared in parallel (tare.execute.parallel).

    def can_wait_at_gate(self, case: Case) -> bool:
        """Whether its process can be prepared in parallel with others and then wait until it may measure."""
        return executable_rung(case) is None and split_name(case.rung)[1] not in get_rung(case.rung).solitary

    def gated_job(self, case: Case, index: int, options: Options, check: bool) -> RoundJob | None:
        """The job of such a process; None while the reference is missing that it needs."""
        reference = self.reference_job(case, options) if check and options.parity else None
        if reference and not isinstance(self._made.get(reference), Prepared):
            return None
        return self._round_job(case, index, options, reference.folder if reference else None)

    def jobs_ahead(self, case: Case, options: Options, check: bool) -> list[ReferenceJob | StageJob]:
        """What has to be made once before a round of the case can be measured, and is not made yet."""
        jobs: list[ReferenceJob | StageJob] = []
        if check and options.parity:
            jobs.append(self.reference_job(case, options))
        if rung := executable_rung(case):
            jobs.append(self._stage_job(rung.staged_as(case)))
        return [job for job in jobs if job not in self._made]

    def keep_ahead(self, job: ReferenceJob | StageJob, worker_exit: WorkerExit, options: Options) -> None:
        """Keeps the result of a job that ran in parallel with others. Its duration means nothing. Its failure is
        only kept if it had all the time that a round has; otherwise the round that needs it tries again, alone."""
        made = answer_of(worker_exit, Prepared)
        if isinstance(made, Prepared):
            self._made[job] = msgspec.structs.replace(made, prepare_s=0.0, cache="warm")
        elif made.cause == "timeout":
            hint = f"prepared in parallel (--jobs {options.jobs}; with --jobs 1 it has all cores)"
            self._made[job] = msgspec.structs.replace(made, message=f"{made.message}, {hint}")

    def rung_worker(
        self,
        case: Case,
        options: Options,
        variables: dict[str, str] | None = None,
        data: str = "",
        steps: int = 0,
    ) -> RungWorker | Failure:
        """A Python worker, or the rung's executable with its files staged. A build that failed is not tried again
        in this run."""
        rung = executable_rung(case)
        if rung is None:
            return RungWorker(SpawnLauncher(variables=variables) if variables else self.launcher)
        key = (rung.name, case.device_type)
        try:
            if key in self._failed_builds:
                raise self._failed_builds[key]
            command = rung.command(case, lambda: self.on_stage(BUILDING))
        except TareError as error:
            self._failed_builds[key] = error
            return Failure(cause="not-installed", message=str(error), stage="build")
        job = self._stage_job(rung.staged_as(case), data, steps)
        staged = self.run_once(job, options)
        if isinstance(staged, Failure):
            return staged
        return RungWorker(SpawnLauncher(command, "executable", variables), job.folder, staged)

    def gpu(self, device: str) -> Gpu | None:
        pci_address = self._gpus.get(device if ":" in device else f"{device}:0")
        return Gpu.open(pci_address) if pci_address else None

    def reference_job(self, case: Case, options: Options) -> ReferenceJob:
        case = reference_case(case)
        return ReferenceJob(case=case, folder=str(self.folder("reference", case)), storage=options.reference)

    def cache_folder(self, case: Case) -> str | None:
        """The compilers' caches of a case, if its rung has any: its later processes in this run find them warm."""
        return str(self.folder("cache", case)) if get_rung(case.rung).caches else None

    def folder(self, kind: str, case: Case) -> Path:
        return self.scratch / kind / hashlib.sha256(case.key.encode()).hexdigest()[:16]

    def close(self) -> None:
        self.launcher.close()

    def _run_executable(self, job: RoundJob, index: int, options: Options) -> Round:
        """Stages the case in Python once, measures it in the executable, and checks its evidence in Python."""
        case = job.case
        evidence = make_folder(self.folder("evidence", case))
        worker = self.rung_worker(case, options)
        if isinstance(worker, Failure):
            started = datetime.now(UTC).isoformat(timespec="seconds")
            return Round(index=index, started=started, seconds=0.0, isolation="executable", failure=worker)
        launcher, stage, staged = worker
        # Files that were staged for another case count here too: alone, this case would have taken as long.
        cold = staged.cache == "cold" and case.key not in self._cold_counted
        self._cold_counted.add(case.key)
        cache = str(home() / "native" / "searched")
        executable_job = msgspec.structs.replace(
            job, reference=None, stage=stage, evidence=str(evidence) if job.reference else None, cache=cache
        )
        round_ = self._measure(executable_job, index, options, launcher)
        if round_.failure:
            return round_
        return msgspec.structs.replace(
            round_,
            prepare_s=(round_.prepare_s or 0.0) + (staged.prepare_s if cold else 0.0),
            cache="cold" if cold else "warm",
            flags=staged.flags,
            parity=self._check(case, evidence, job.reference, options) if job.reference else None,
        )

    def _check(self, case: Case, evidence: Path, reference: str, options: Options) -> Parity:
        checked = self.ask(CheckJob(case=case, evidence=str(evidence), reference=reference), Checked, options)
        if isinstance(checked, Failure):
            return Parity(status="unchecked", reason=f"the check failed: {checked.message}")
        return checked.parity

    def _stage_job(self, case: Case, data: str = "", steps: int = 0) -> StageJob:
        folder = self.folder(f"stage-{data}-{steps}" if steps else "stage", case)
        return StageJob(case=case, folder=str(folder), data=data, steps=steps)

    def _round_job(self, case: Case, index: int, options: Options, reference: str | None) -> RoundJob:
        return RoundJob(
            case=case,
            budget_s=options.round_budget,
            width=options.width,
            reference=reference,
            cache=self.cache_folder(case),
            # Once is enough, and the profiler takes a second to start.
            profile=index == 0,
        )

    def _measure(self, job: RoundJob, index: int, options: Options, launcher: Launcher | None = None) -> Round:
        watch = Watch(self.gpu(job.case.device))
        return make_round(self._run(job, options, launcher, watch), watch, index)

    def _run(
        self, job: Job, options: Options, launcher: Launcher | None = None, watch: Watch | None = None
    ) -> WorkerExit:
        def on_message(message: Message) -> None:
            if isinstance(message, Stage):
                # Compilers work in the first step.
                compiles = (
                    message.name == "prepare" and isinstance(job, RoundJob) and get_rung(job.case.rung).caches
                )
                self.on_stage(COMPILING if compiles else message.name)

        supervision = Supervision(options.timeout, options.memory, on_message=on_message)
        if watch:
            supervision.on_start, supervision.on_tick = watch.start, watch.poll
        with machine_lock(home(), lambda: self.on_stage(WAITING)):
            return run_worker(launcher or self.launcher, job, supervision)
