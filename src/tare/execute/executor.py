"""The local executor: a job becomes a worker, a watched worker becomes a round."""

import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import TareError
from tare.execute.launch import CannotStart, ForkLauncher, Launcher, SpawnLauncher
from tare.execute.rounds import failed_round, failure_of, now, unchecked, watched_round
from tare.execute.supervise import Ending, Watchman, held_by, supervise
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

OnStage = Callable[[str], None]
Answer = TypeVar("Answer")


class Executor(Protocol):
    """What the runner needs of whatever runs cases; tests have a twin that measures nothing."""

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round: ...


def make_launcher(
    isolation: str,
    preload: tuple[str, ...] = (),
    python: str = sys.executable,
    variables: Mapping[str, str] | None = None,
) -> Launcher:
    """Workers of this version; or, with another `python` or other `variables`, of another."""
    if isolation == "fork":
        return ForkLauncher(preload, python, variables)
    return SpawnLauncher((python, "-m", "tare.worker.process"), variables=variables)


class LocalExecutor:
    def __init__(self, launcher: Launcher, scratch: Path, on_stage: OnStage = lambda _: None) -> None:
        self._launcher = launcher
        self._scratch = scratch
        self._on_stage = on_stage
        self._references: dict[str, Failure | None] = {}
        self._gpus: dict[str, str] = {}
        self._unbuilt: dict[tuple[str, str], TareError] = {}
        # What a staging took, where it went well: one that failed is tried again in the next round.
        self._staged: dict[StageJob, Prepared] = {}
        # What took longer than it may when it was prepared ahead, and is not tried again.
        self._late: dict[Job, Failure] = {}
        self._counted: set[str] = set()

    def probe(self, what: str = "this machine") -> Probed:
        """What this machine has, as its version of torch sees it; the first thing to ask."""
        self._on_stage(f"looking at {what}")
        found = self.ask(ProbeJob(), Probed, Options())
        if isinstance(found, Failure):
            raise TareError(f"cannot look at this machine: {found.message}")
        self._gpus = found.gpus
        return found

    def ask(self, job: Job, answer: type[Answer], options: Options, device: str = "cpu") -> Answer | Failure:
        """What a worker says to a question, or why it has no answer."""
        heard = self.send(job, options, device)
        if isinstance(heard, Failure):
            return heard
        found = next((m for m in heard if isinstance(m, answer)), None)
        return found or Failure(cause="no-result", message="the worker gave no answer")

    def send(
        self, job: Job, options: Options, device: str, launcher: Launcher | None = None
    ) -> list[Message] | Failure:
        """All that a worker says that runs a job which is no round, watched like any other, or why it failed."""
        ending, _ = self._supervise(job, options, device, launcher)
        return failure_of(ending, options.timeout) or ending.messages

    def inquire(self, job: Job, options: Options, device: str, launcher: Launcher | None = None) -> list[Message]:
        """The same where a failure is an error: TareError."""
        heard = self.send(job, options, device, launcher)
        if isinstance(heard, Failure):
            raise TareError(f"{heard.stage or 'the worker'} failed: {heard.cause}, {heard.message}")
        return heard

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:
        """One fresh process that measures one case. `check` asks for the proof of parity as well."""
        reference, no_reference = self._reference_for(case, options, check)
        rung = get_rung(case.rung)
        if isinstance(rung, NativeRung) and rung.is_executable(case):
            done = self._run_executable(rung, case, index, options, reference)
        else:
            done = self._run(self._round_job(case, index, options, reference), index, options)
        return done if no_reference is None else msgspec.structs.replace(done, parity=unchecked(no_reference))

    def goes_beside(self, case: Case) -> bool:
        """Whether its process may be prepared beside others."""
        rung = get_rung(case.rung)
        if isinstance(rung, NativeRung) and rung.is_executable(case):
            return False
        return split_name(case.rung)[1] not in rung.solitary

    def job_beside(self, case: Case, index: int, options: Options, check: bool) -> RoundJob | None:
        """The job of the same round for such a process; None while it lacks the reference that it needs."""
        wanted, reference = check and options.parity, reference_case(case)
        if wanted and self._references.get(reference.key, "not made") is not None:
            return None
        return self._round_job(case, index, options, self._folder("reference", reference) if wanted else None)

    def reference_beside(self, case: Case, options: Options) -> ReferenceJob | None:
        """The job that makes its reference beside others; None where none is needed any more."""
        reference = reference_case(case)
        wanted = options.parity and reference.key not in self._references
        return self._referring(reference, options, beside=True) if wanted else None

    def preparations(self, case: Case, options: Options) -> list[Job]:
        """What can be done ahead for a case, beside other cases and untimed; for parity, its reference too."""
        made: list[Job] = [job] if (job := self.reference_beside(case, options)) else []
        rung = get_rung(case.rung)
        if isinstance(rung, NativeRung) and rung.is_executable(case):
            return [self._staging(rung.staged_as(case)), *made]
        return made

    def prepared_ahead(self, job: Job, ending: Ending, options: Options) -> bool:
        """Takes note of how a preparation beside others ended: what it took says nothing, nor does a failure,
        unless it had all the time that a round has."""
        good = ending.status == 0 and ending.killed is None
        late = failure_of(ending, options.timeout) if ending.killed == "timeout" else None
        if late:
            flag = f"--warm {options.warm}" if options.warm else f"--abreast {options.abreast}"
            beside = f"prepared ahead beside others ({flag}; without, it has all cores)"
            late = msgspec.structs.replace(late, message=f"{late.message}, {beside}")
        staged = next((m for m in ending.messages if isinstance(m, Prepared)), None)
        if staged and isinstance(job, StageJob):
            self._staged[job] = msgspec.structs.replace(staged, prepare_s=0.0, cache="warm")
        if isinstance(job, ReferenceJob) and (good or late):
            self._references[job.case.key] = late
        elif late:
            self._late[job] = late
        return good

    def watch(self, device: str, pid: int) -> Watch:
        """Whoever looks at the machine while a worker measures."""
        pci = self._gpus.get(device if ":" in device else f"{device}:0")
        gpu = Gpu.open(pci) if pci else None
        return Watch(
            gpu.read if gpu else None,
            read_memory=lambda: gpu.used_by(pid) if gpu else None,
            read_host=lambda: held_by(pid),
        )

    def cache_of(self, case: Case) -> Path:
        """Where the compilers' caches of a case are: a later process of this run finds its programs warm."""
        return self._folder("cache", case)

    @property
    def turns(self) -> Path:
        """Where workers wait that are prepared side by side."""
        return self._scratch / "turns"

    @property
    def launcher(self) -> Launcher:
        return self._launcher

    def close(self) -> None:
        self._launcher.close()

    def _run(self, job: RoundJob, index: int, options: Options, launcher: Launcher | None = None) -> Round:
        started = now()
        ending, watch = self._supervise(job, options, job.case.device, launcher)
        return watched_round(
            ending, watch, index, started, (launcher or self._launcher).isolation, options.timeout
        )

    def _run_executable(
        self, rung: NativeRung, case: Case, index: int, options: Options, reference: Path | None
    ) -> Round:
        """Stages the case once in Python, measures it in the executable, and proves it in Python again."""
        try:
            command = self._command(rung, case)
        except TareError as error:
            return failed_round(index, Failure(cause="not-installed", message=str(error), stage="build"))
        staging = self._staging(rung.staged_as(case))
        if late := self._late.get(staging):
            return failed_round(index, late)
        if staging not in self._staged:
            ending, _ = self._supervise(staging, options, case.device)
            failure = failure_of(ending, options.timeout)
            if failure:
                return failed_round(index, failure, ending.seconds)
            self._staged[staging] = next(m for m in ending.messages if isinstance(m, Prepared))
        staged = self._staged[staging]
        # What was staged for another case is counted here as well: alone, this one would have taken as long.
        cold = staged.cache == "cold" and case.key not in self._counted
        self._counted.add(case.key)
        evidence = self._folder("evidence", case)
        make_folder(evidence)
        searched = str(home() / "native" / "searched")
        wanted = str(evidence) if reference else None
        job = self._job(case, options, index, stage=staging.folder, evidence=wanted, cache=searched)
        try:
            done = self._run(job, index, options, SpawnLauncher(command, "executable"))
        except CannotStart as error:
            return failed_round(index, Failure(cause="not-installed", message=str(error), stage="start"))
        if done.failure:
            return done
        return msgspec.structs.replace(
            done,
            prepare_s=(done.prepare_s or 0.0) + (staged.prepare_s if cold else 0.0),
            cache="cold" if cold else "warm",
            flags=staged.flags,
            parity=self._check(case, evidence, reference, options) if reference else None,
        )

    def _referring(self, reference: Case, options: Options, beside: bool = False) -> ReferenceJob:
        folder = str(self._folder("reference", reference))
        return ReferenceJob(case=reference, folder=folder, parallel=beside, storage=options.reference)

    def _staging(self, case: Case) -> StageJob:
        return StageJob(case=case, folder=str(self._folder("stage", case)))

    def _command(self, rung: NativeRung, case: Case) -> tuple[str, ...]:
        """The rung's executable; a build that failed is not tried again in this run."""
        known = (rung.name, case.device_type)
        if known in self._unbuilt:
            raise self._unbuilt[known]
        try:
            return rung.command(case, lambda: self._on_stage("building the native rungs, once"))
        except TareError as error:
            self._unbuilt[known] = error
            raise

    def _check(self, case: Case, evidence: Path, reference: Path, options: Options) -> Parity:
        job = CheckJob(case=case, evidence=str(evidence), reference=str(reference))
        ending, _ = self._supervise(job, options, case.device)
        found = next((m.parity for m in ending.messages if isinstance(m, Checked)), None)
        if found is None:
            failure = failure_of(ending, options.timeout)
            return Parity(status="unchecked", reason=f"the check failed: {failure.message if failure else '?'}")
        return found

    def _need_reference(self, case: Case, options: Options) -> Failure | None:
        """Makes the reference of a case once a run; a Failure where it cannot be made."""
        wanted = reference_case(case)
        if wanted.key not in self._references:
            self._on_stage("reference")
            heard = self.send(self._referring(wanted, options), options, case.device)
            self._references[wanted.key] = heard if isinstance(heard, Failure) else None
        return self._references[wanted.key]

    def _reference_for(self, case: Case, options: Options, check: bool) -> tuple[Path | None, Failure | None]:
        """Where the reference lies that a round is to be compared with, or why there is none."""
        if not (check and options.parity):
            return None, None
        failure = self._need_reference(case, options)
        return (None, failure) if failure else (self._folder("reference", reference_case(case)), None)

    def _round_job(self, case: Case, index: int, options: Options, reference: Path | None) -> RoundJob:
        known = str(reference) if reference else None
        return self._job(case, options, index, reference=known, cache=str(self.cache_of(case)))

    def _job(self, case: Case, options: Options, index: int, **more: Any) -> RoundJob:
        # One profiled pass a case is enough: the profiler takes a second to start.
        profile = index == 0
        return RoundJob(case=case, budget_s=options.round_budget, width=options.width, profile=profile, **more)

    def _folder(self, kind: str, case: Case) -> Path:
        return self._scratch / kind / hashlib.sha256(case.key.encode()).hexdigest()[:16]

    def _supervise(
        self, job: Job, options: Options, device: str, launcher: Launcher | None = None
    ) -> tuple[Ending, Watch]:
        def tell(message: Message) -> None:
            if isinstance(message, Stage):
                self._on_stage(message.name)

        with machine_lock(home(), lambda: self._on_stage("waiting for another tare")):
            process = (launcher or self._launcher).launch(job)
            watch = self.watch(device, process.pid)
            watchman = Watchman(options.timeout, options.memory, watch.poll, tell)
            return supervise(process, watchman), watch
