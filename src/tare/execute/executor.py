"""The local executor: runs jobs in supervised worker processes, and turns a worker's exit into a round."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import TareError
from tare.execute.launch import CannotStart, Launcher, SpawnLauncher
from tare.execute.rounds import failed_round, failure_of, make_round, now, unchecked
from tare.execute.supervise import Supervision, WorkerExit, resident_bytes, supervise
from tare.measure.nvml import Gpu
from tare.measure.telemetry import Watch, cpu_seconds
from tare.protocol.jobs import (
    CheckJob,
    CurveJob,
    FramesJob,
    Job,
    ProbeJob,
    ReferenceJob,
    RoundJob,
    StageJob,
    reference_case,
)
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
Answer = TypeVar("Answer")


class Executor(Protocol):
    """What the runner needs. The tests have a mock that measures nothing."""

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round: ...


class LaunchableJob(NamedTuple):
    job: Job
    launcher: Launcher


def executable_rung(case: Case) -> NativeRung | None:
    """The case's rung, if its worker is an executable."""
    rung = get_rung(case.rung)
    return rung if isinstance(rung, NativeRung) and rung.is_executable(case) else None


class LocalExecutor:
    def __init__(self, launcher: Launcher, scratch: Path, on_stage: OnStage = lambda _: None) -> None:
        self.launcher = launcher
        self.on_stage = on_stage
        self._scratch = scratch
        self._gpus: dict[str, str] = {}
        # References and staged files are made once a run. A failure is kept too: it would only repeat itself.
        self._made: dict[ReferenceJob | StageJob, Prepared | Failure | None] = {}
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

    def ask(self, job: Job, answer: type[Answer], options: Options, device: str = "cpu") -> Answer | Failure:
        """The one message that answers a job, or why there is none."""
        messages = self.send(job, options, device)
        if isinstance(messages, Failure):
            return messages
        message = next((m for m in messages if isinstance(m, answer)), None)
        return message or Failure(cause="no-result", message="the worker gave no answer")

    def send(
        self, job: Job, options: Options, device: str, launcher: Launcher | None = None
    ) -> list[Message] | Failure:
        """All messages of a worker that runs a job other than a round, or why it failed."""
        try:
            worker_exit, _ = self._run_job(job, options, device, launcher)
        except CannotStart as error:
            return Failure(cause="not-installed", message=str(error), stage="start")
        return failure_of(worker_exit, options.timeout) or worker_exit.messages

    def request(self, job: Job, options: Options, device: str, launcher: Launcher | None = None) -> list[Message]:
        """As `send`, where a failure is an error: TareError."""
        messages = self.send(job, options, device, launcher)
        if isinstance(messages, Failure):
            raise TareError(f"{messages.stage or 'the worker'} failed: {messages.cause}, {messages.message}")
        return messages

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:
        """One fresh process that measures one case. With `check` it is also compared with the reference."""
        reference, failure = None, None
        if check and options.parity:
            failure = self.run_once(self.reference_job(case, options), options)
            reference = None if failure else self._reference_folder(case)
        rung = executable_rung(case)
        if rung is not None:
            round_ = self._run_executable(rung, case, index, options, reference)
        else:
            round_ = self._measure(self._round_job(case, index, options, reference), index, options)
        return msgspec.structs.replace(round_, parity=unchecked(failure)) if failure else round_

    def run_program(self, command: tuple[str, ...], case: Case, index: int, options: Options) -> Round:
        """A round of an executable that is no rung and needs no staged files."""
        job = RoundJob(case=case, budget_s=options.round_budget, width=options.width)
        return self._measure(job, index, options, SpawnLauncher(command, "executable"))

    def run_once(self, job: ReferenceJob | StageJob, options: Options) -> Failure | None:
        """Makes a reference or staged files, unless this run has them or has failed to make them."""
        if job not in self._made:
            self.on_stage(REFERENCE if isinstance(job, ReferenceJob) else EXPORTING)
            messages = self.send(job, options, job.case.device)
            self._made[job] = messages if isinstance(messages, Failure) else _find_prepared(messages)
        made = self._made[job]
        return made if isinstance(made, Failure) else None

    # What can be prepared in parallel (tare.execute.parallel).

    def can_wait_at_gate(self, case: Case) -> bool:
        """Whether its process can be prepared in parallel with others and then wait until it may measure."""
        return executable_rung(case) is None and split_name(case.rung)[1] not in get_rung(case.rung).solitary

    def gated_job(self, case: Case, index: int, options: Options, check: bool) -> RoundJob | None:
        """The job of such a process; None while the reference is missing that it needs."""
        check = check and options.parity
        if check and self._made.get(self.reference_job(case, options), "missing") is not None:
            return None
        return self._round_job(case, index, options, self._reference_folder(case) if check else None)

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
        failure = failure_of(worker_exit, options.timeout)
        if failure is None:
            prepared = _find_prepared(worker_exit.messages)
            self._made[job] = prepared and msgspec.structs.replace(prepared, prepare_s=0.0, cache="warm")
        elif failure.cause == "timeout":
            hint = f"prepared in parallel (--jobs {options.jobs}; with --jobs 1 it has all cores)"
            self._made[job] = msgspec.structs.replace(failure, message=f"{failure.message}, {hint}")

    # What curves and call stacks need (tare.execute.curves, tare.execute.call_stacks).

    def for_rung(
        self,
        job: CurveJob | FramesJob,
        options: Options,
        variables: dict[str, str] | None = None,
        data: str = "",
        steps: int = 0,
    ) -> LaunchableJob | Failure:
        """The job for a Python worker, or for the rung's executable with its files staged."""
        rung = executable_rung(job.case)
        if rung is None:
            return LaunchableJob(job, SpawnLauncher(variables=variables) if variables else self.launcher)
        command = self._command(rung, job.case)
        if isinstance(command, Failure):
            return command
        staging = self._stage_job(rung.staged_as(job.case), data, steps)
        if failure := self.run_once(staging, options):
            return failure
        staged_job = msgspec.structs.replace(job, stage=staging.folder)
        return LaunchableJob(staged_job, SpawnLauncher(command, "executable", variables))

    def watch(self, device: str, pid: int) -> Watch:
        """Reads the machine's state while a worker measures."""
        pci_address = self._gpus.get(device if ":" in device else f"{device}:0")
        gpu = Gpu.open(pci_address) if pci_address else None
        return Watch(
            gpu.read if gpu else None,
            read_memory=lambda: gpu.used_by(pid) if gpu else None,
            read_host=lambda: resident_bytes(pid),
            read_own_cpu=lambda: cpu_seconds(pid),
        )

    def reference_job(self, case: Case, options: Options) -> ReferenceJob:
        folder = str(self._reference_folder(case))
        return ReferenceJob(case=reference_case(case), folder=folder, storage=options.reference)

    def cache_folder(self, case: Case) -> Path:
        """The compilers' caches of a case: its later processes in this run find them warm."""
        return self.folder("cache", case)

    def folder(self, kind: str, case: Case) -> Path:
        return self._scratch / kind / hashlib.sha256(case.key.encode()).hexdigest()[:16]

    @property
    def gate_folder(self) -> Path:
        return self._scratch / "gate"

    def close(self) -> None:
        self.launcher.close()

    def _run_executable(
        self, rung: NativeRung, case: Case, index: int, options: Options, reference: Path | None
    ) -> Round:
        """Stages the case in Python once, measures it in the executable, and checks its evidence in Python."""
        command = self._command(rung, case)
        if isinstance(command, Failure):
            return failed_round(index, command)
        staging = self._stage_job(rung.staged_as(case))
        if failure := self.run_once(staging, options):
            return failed_round(index, failure)
        staged = self._made[staging]
        assert isinstance(staged, Prepared)
        # Files that were staged for another case count here too: alone, this case would have taken as long.
        cold = staged.cache == "cold" and case.key not in self._cold_counted
        self._cold_counted.add(case.key)
        evidence = make_folder(self.folder("evidence", case))
        job = RoundJob(
            case=case,
            budget_s=options.round_budget,
            width=options.width,
            stage=staging.folder,
            evidence=str(evidence) if reference else None,
            cache=str(home() / "native" / "searched"),
            profile=index == 0,
        )
        try:
            round_ = self._measure(job, index, options, SpawnLauncher(command, "executable"))
        except CannotStart as error:
            return failed_round(index, Failure(cause="not-installed", message=str(error), stage="start"))
        if round_.failure:
            return round_
        return msgspec.structs.replace(
            round_,
            prepare_s=(round_.prepare_s or 0.0) + (staged.prepare_s if cold else 0.0),
            cache="cold" if cold else "warm",
            flags=staged.flags,
            parity=self._check(case, evidence, reference, options) if reference else None,
        )

    def _check(self, case: Case, evidence: Path, reference: Path, options: Options) -> Parity:
        job = CheckJob(case=case, evidence=str(evidence), reference=str(reference))
        checked = self.ask(job, Checked, options, case.device)
        if isinstance(checked, Failure):
            return Parity(status="unchecked", reason=f"the check failed: {checked.message}")
        return checked.parity

    def _command(self, rung: NativeRung, case: Case) -> tuple[str, ...] | Failure:
        """The rung's executable; a build that failed is not tried again in this run."""
        key = (rung.name, case.device_type)
        try:
            if key in self._failed_builds:
                raise self._failed_builds[key]
            return rung.command(case, lambda: self.on_stage(BUILDING))
        except TareError as error:
            self._failed_builds[key] = error
            return Failure(cause="not-installed", message=str(error), stage="build")

    def _stage_job(self, case: Case, data: str = "", steps: int = 0) -> StageJob:
        folder = self.folder(f"stage-{data}-{steps}" if steps else "stage", case)
        return StageJob(case=case, folder=str(folder), data=data, steps=steps)

    def _round_job(self, case: Case, index: int, options: Options, reference: Path | None) -> RoundJob:
        return RoundJob(
            case=case,
            budget_s=options.round_budget,
            width=options.width,
            reference=str(reference) if reference else None,
            cache=str(self.cache_folder(case)),
            # Once is enough, and the profiler takes a second to start.
            profile=index == 0,
        )

    def _reference_folder(self, case: Case) -> Path:
        return self.folder("reference", reference_case(case))

    def _measure(self, job: RoundJob, index: int, options: Options, launcher: Launcher | None = None) -> Round:
        started = now()
        worker_exit, watch = self._run_job(job, options, job.case.device, launcher)
        isolation = (launcher or self.launcher).isolation
        return make_round(worker_exit, watch, index, started, isolation, options.timeout)

    def _run_job(
        self, job: Job, options: Options, device: str, launcher: Launcher | None
    ) -> tuple[WorkerExit, Watch]:
        def on_message(message: Message) -> None:
            if isinstance(message, Stage):
                self.on_stage(_stage_text(job, message.name))

        with machine_lock(home(), lambda: self.on_stage(WAITING)):
            process = (launcher or self.launcher).launch(job)
            watch = self.watch(device, process.pid)
            supervision = Supervision(options.timeout, options.memory, watch.poll, on_message)
            return supervise(process, supervision), watch


def _find_prepared(messages: list[Message]) -> Prepared | None:
    return next((message for message in messages if isinstance(message, Prepared)), None)


def _stage_text(job: Job, stage: str) -> str:
    """Compilers work in the first step."""
    if stage == "prepare" and isinstance(job, RoundJob) and get_rung(job.case.rung).caches:
        return COMPILING
    return stage
