"""The local executor: runs jobs in supervised worker processes, and turns a worker's exit into a round."""

import hashlib
import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import TareError
from tare.execute.environments import environment_launcher, find_environment
from tare.execute.launch import Launcher, SpawnLauncher
from tare.execute.rounds import Answer, answer_of, make_round, unchecked
from tare.execute.supervise import Supervision, WorkerExit, run_worker
from tare.measure.nvml import Gpu
from tare.measure.parity import is_without_dropout
from tare.measure.telemetry import Watch
from tare.protocol.jobs import (
    CheckJob,
    CommandJob,
    Job,
    ProbeJob,
    ReferenceJob,
    RoundJob,
    StageJob,
    reference_case,
)
from tare.protocol.messages import Checked, Message, Prepared, Probed, Stage
from tare.records.record import DECLARED_OFF, Failure, Parity, Round
from tare.rungs import get_rung
from tare.rungs.native.rung import NativeRung
from tare.rungs.registry import environment_name, split_name
from tare.system.home import home, make_folder
from tare.system.locks import machine_lock
from tare.workloads.commands import COMMAND, get_command
from tare.workloads.own.registry import find_own

BUILDING = "building the C++ rungs, once: about a minute"
COMPILING = "compiling: seconds to minutes"
EXPORTING = "exporting for C++: seconds to minutes"
REFERENCE = "computing the float64 reference"
# The file of an executable's evidence that is written last (docs/protocol.md).
EVIDENCE_NAMES = "names.json"
WITHOUT_DROPOUT = "parity was judged with dropout off, in a round of its own; the times are with dropout"
# Enough for the evidence: nothing of such a round is kept but its parity.
PARITY_BUDGET_S = 1.0
WAITING = "waiting for another tare"

OnStage = Callable[[str], None]
OnMessage = Callable[[Message], None]


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


def _parity_off(case: Case) -> str:
    """Why the author of a user's model does not want it to be compared, or nothing."""
    own = find_own(case.workload)
    return own.parity_off if own else ""


def _is_checked(case: Case, options: Options, check: bool) -> bool:
    return check and options.parity and not _parity_off(case)


class LocalExecutor:
    """`variables` are set for every worker, and `python` is its interpreter. The launcher has both already. The
    workers that it does not start get the variables as well: those in an environment, and executables."""

    def __init__(
        self,
        launcher: Launcher,
        scratch: Path,
        on_stage: OnStage = lambda _: None,
        variables: Mapping[str, str] = MappingProxyType({}),
        python: str = sys.executable,
    ) -> None:
        self.launcher, self._variables, self._python = launcher, variables, python
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
        self,
        job: Job,
        answer: type[Answer],
        options: Options,
        launcher: Launcher | None = None,
        on_message: OnMessage = lambda _: None,
    ) -> Answer | Failure:
        """The message that answers a job other than a round (at least `Done`), or why there is none. `on_message`
        is called with each as it comes."""
        return answer_of(self._run(job, options, launcher, hear=on_message), answer)

    def request(
        self, job: Job, answer: type[Answer], options: Options, launcher: Launcher | None = None
    ) -> Answer:
        """As `ask`, where a failure is an error: TareError."""
        message = self.ask(job, answer, options, launcher)
        if isinstance(message, Failure):
            raise TareError(f"{message.stage or 'the worker'} failed: {message.cause}, {message.message}")
        return message

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:
        """One fresh process that measures one case. With `check` it is also compared with the reference; a case
        with dropout in a second process, where its dropout is off."""
        reference, failure = None, None
        if _is_checked(case, options, check):
            reference_job = self.reference_job(case, options)
            made = self.run_once(reference_job, options)
            failure = made if isinstance(made, Failure) else None
            reference = None if failure else reference_job.folder
        measure = self._run_executable if executable_rung(case) else self._measure
        if reference and is_without_dropout(Path(reference)):
            round_ = measure(self._round_job(case, index, options, None), index, options)
            return round_ if round_.failure else self._add_parity(round_, case, options, reference)
        round_ = measure(self._round_job(case, index, options, reference), index, options)
        if declared := _parity_off(case):
            parity = Parity(status="unchecked", reason=f"{DECLARED_OFF}: {declared}")
            return msgspec.structs.replace(round_, parity=parity)
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
        if find_environment(case.rung):
            return False
        return executable_rung(case) is None and split_name(case.rung)[1] not in get_rung(case.rung).solitary

    def gated_job(self, case: Case, index: int, options: Options, check: bool) -> RoundJob | None:
        """The job of such a process; None where it has to be measured alone, as long as the reference is missing
        that it needs."""
        reference = self.reference_job(case, options) if _is_checked(case, options, check) else None
        if reference and not isinstance(self._made.get(reference), Prepared):
            return None
        if reference and is_without_dropout(Path(reference.folder)):
            # It takes a second process.
            return None
        return self._round_job(case, index, options, reference.folder if reference else None)

    def jobs_ahead(self, case: Case, options: Options, check: bool) -> list[ReferenceJob | StageJob]:
        """What has to be made once before a round of the case can be measured, and is not made yet."""
        jobs: list[ReferenceJob | StageJob] = []
        if _is_checked(case, options, check):
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
        dropout: bool = True,
        learning_rate: float | None = None,
    ) -> RungWorker | Failure:
        """A Python worker, or the rung's executable with its files staged. A build that failed is not tried again
        in this run."""
        rung, own = executable_rung(case), {**self._variables, **(variables or {})}
        if rung is None:
            plain = SpawnLauncher(variables=own) if variables else self.launcher
            return RungWorker(self._environment_launcher(case, own) or plain)
        key = (rung.name, case.device_type)
        try:
            if key in self._failed_builds:
                raise self._failed_builds[key]
            command = rung.command(case, lambda: self.on_stage(BUILDING))
        except TareError as error:
            self._failed_builds[key] = error
            return Failure(cause="not-installed", message=str(error), stage="build")
        job = self._stage_job(rung.staged_as(case), dropout, learning_rate)
        staged = self.run_once(job, options)
        if isinstance(staged, Failure):
            return staged
        return RungWorker(SpawnLauncher(command, "executable", own), job.folder, staged)

    def gpu(self, device: str) -> Gpu | None:
        pci_address = self._gpus.get(device if ":" in device else f"{device}:0")
        return Gpu.open(pci_address) if pci_address else None

    def reference_job(self, case: Case, options: Options) -> ReferenceJob:
        case = reference_case(case)
        return ReferenceJob(case=case, folder=str(self.folder("reference", case)), storage=options.reference)

    def cache_folder(self, case: Case) -> str | None:
        """The compilers' caches of a case, if its rung has any: its later processes in this run find them warm."""
        return str(self.folder("cache", case)) if get_rung(case.rung).caches else None

    def staged_folder(self, case: Case) -> Path:
        """Where a round of a case that an executable runs has left the files that it reads."""
        rung = executable_rung(case)
        return Path(self._stage_job(rung.staged_as(case) if rung else case).folder)

    def folder(self, kind: str, case: Case) -> Path:
        return self.scratch / kind / hashlib.sha256(case.key.encode()).hexdigest()[:16]

    def say_wait(self, holder: str) -> None:
        """Another tare measures now."""
        self.on_stage(f"{WAITING}: {holder}")

    def close(self) -> None:
        self.launcher.close()

    def _run_executable(self, job: RoundJob, index: int, options: Options) -> Round:
        """Stages the case in Python once, measures it in the executable, and checks its evidence in Python."""
        case = job.case
        # Of an earlier round of this case.
        shutil.rmtree(self.folder("evidence", case), ignore_errors=True)
        evidence = make_folder(self.folder("evidence", case))
        worker = self.rung_worker(case, options, dropout=job.dropout)
        if isinstance(worker, Failure):
            started = datetime.now(UTC).isoformat(timespec="milliseconds")
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
        checked = self._check(round_, case, evidence, job.reference, options) if job.reference else None
        return msgspec.structs.replace(
            round_,
            prepare_s=(round_.prepare_s or 0.0) + (staged.prepare_s if cold else 0.0),
            cache="cold" if cold else "warm",
            flags=staged.flags,
            parity=checked if isinstance(checked, Parity) else None,
            failure=checked if isinstance(checked, Failure) else None,
        )

    def _check(
        self, round_: Round, case: Case, evidence: Path, reference: str, options: Options
    ) -> Parity | Failure:
        """A worker that leaves no evidence that can be compared has failed: it was asked for parity. A check that
        ran out of time or memory says nothing about the worker."""
        fault = "the worker left no evidence, although the job asks for parity"
        if (evidence / EVIDENCE_NAMES).exists():
            pipelined = round_.find("pipelined")
            step_s = min(pipelined.step_seconds()) if pipelined else 0.0
            job = CheckJob(case=case, evidence=str(evidence), reference=reference, step_s=step_s)
            checked = self.ask(job, Checked, options)
            if isinstance(checked, Checked):
                return checked.parity
            if checked.cause != "exception":
                return Parity(status="unchecked", reason=f"the check failed: {checked.message}")
            fault = f"the worker's evidence cannot be compared: {checked.message}"
        return Failure(cause="inconsistent", message=fault, stage="parity")

    def _environment_launcher(self, case: Case, variables: Mapping[str, str]) -> Launcher | None:
        """What starts the worker of a case whose rung runs in an environment. Where another interpreter is
        measured, a rung without an @ is meant to run in that one."""
        is_named = bool(environment_name(case.rung))
        return environment_launcher(case.rung, variables) if is_named or self._python == sys.executable else None

    def _stage_job(self, case: Case, dropout: bool = True, learning_rate: float | None = None) -> StageJob:
        kind = "stage" if learning_rate is None else f"stage-{learning_rate:g}"
        folder = self.folder(kind if dropout else f"{kind}-without-dropout", case)
        return StageJob(case=case, folder=str(folder), learning_rate=learning_rate, dropout=dropout)

    def _round_job(self, case: Case, index: int, options: Options, reference: str | None) -> RoundJob:
        if case.rung == COMMAND:
            command = get_command(case.workload)
            return CommandJob(
                case=case,
                budget_s=options.round_budget,
                width=options.width,
                arguments=command.arguments,
                allowed=command.allowed,
            )
        return RoundJob(
            case=case,
            budget_s=options.round_budget,
            width=options.width,
            reference=reference,
            cache=self.cache_folder(case),
            # Once is enough, and the profiler takes a second to start.
            profile=index == 0,
        )

    def _add_parity(self, round_: Round, case: Case, options: Options, reference: str) -> Round:
        """The round with its parity from a short round of the same case with dropout off."""
        job = msgspec.structs.replace(
            self._round_job(case, round_.index, options, reference),
            budget_s=min(options.round_budget, PARITY_BUDGET_S),
            # Compilers might take the case for the one that has dropout.
            cache=str(self.folder("cache-without-dropout", case)) if get_rung(case.rung).caches else None,
            profile=False,
            dropout=False,
        )
        measure = self._run_executable if executable_rung(case) else self._measure
        judged = measure(job, round_.index, options)
        parity = judged.parity
        if judged.failure:
            reason = f"the round with dropout off failed: {judged.failure.cause}, {judged.failure.message}"
            parity = Parity(status="unchecked", reason=reason)
        return msgspec.structs.replace(round_, parity=parity, notes=[*round_.notes, WITHOUT_DROPOUT])

    def _measure(self, job: RoundJob, index: int, options: Options, launcher: Launcher | None = None) -> Round:
        is_command = isinstance(job, CommandJob)
        watch = Watch(self.gpu(job.case.device), whole_tree=is_command)
        round_ = make_round(self._run(job, options, launcher, watch), watch, index)
        # A command has nothing to prepare.
        return msgspec.structs.replace(round_, build_s=None, prepare_s=None) if is_command else round_

    def _run(
        self,
        job: Job,
        options: Options,
        launcher: Launcher | None = None,
        watch: Watch | None = None,
        hear: OnMessage = lambda _: None,
    ) -> WorkerExit:
        def on_message(message: Message) -> None:
            hear(message)
            if isinstance(message, Stage):
                # Compilers work in the first step.
                compiles = (
                    message.name == "prepare" and isinstance(job, RoundJob) and get_rung(job.case.rung).caches
                )
                self.on_stage(COMPILING if compiles else message.name)

        supervision = Supervision(options.timeout, options.memory, on_message=on_message)
        if watch:
            supervision.on_start = lambda process: watch.start(process.pid)
            supervision.on_tick = watch.poll
        case = None if isinstance(job, CommandJob) else getattr(job, "case", None)
        in_environment = self._environment_launcher(case, self._variables) if case else None
        launcher = in_environment or launcher or self.launcher
        with machine_lock(home(), self.say_wait):
            return run_worker(launcher, job, supervision)
