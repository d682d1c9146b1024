"""What a worker does for a case besides a round: a curve of losses on real data, a stack. Nothing here is
timed."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput, TareError, brief
from tare.execute.concurrent import Errand, together
from tare.execute.executor import LocalExecutor, OnStage
from tare.execute.launch import CannotStart, Launcher, SpawnLauncher
from tare.execute.rounds import failure_of, unchecked
from tare.execute.supervise import Ending
from tare.measure.parity import Reference, errors, load_reference
from tare.protocol.jobs import CurveJob, FramesJob, Job, ReferenceJob, StageJob, reference_case
from tare.records.record import Failure, Parity, Round
from tare.rungs import get_rung
from tare.rungs.native.rung import NativeRung
from tare.system.home import make_folder
from tare.worker.loss_curve import read_evidence
from tare.worker.parity_check import judge

COUNTED = "frames.json"


class Curve(msgspec.Struct, kw_only=True):
    """The losses of a rung beside those of float64, and by how much each is off."""

    case: Case
    losses: list[float] = []
    reference: list[float] = []
    errors: list[float] = []
    parity: Parity
    failure: Failure | None = None


def _failed_curve(case: Case, failure: Failure) -> Curve:
    return Curve(case=case, parity=Parity(status="unchecked", reason=failure.message), failure=failure)


def _unproved_curve(case: Case, failure: Failure) -> Curve:
    """Nothing to compare with: the rung has not failed, nor has it been run."""
    return Curve(case=case, parity=unchecked(failure))


class ErrandExecutor(LocalExecutor):
    def __init__(self, launcher: Launcher, scratch: Path, on_stage: OnStage = lambda _: None) -> None:
        super().__init__(launcher, scratch, on_stage)
        # How the making of a folder ended: that it is there does not say so.
        self._made: dict[ReferenceJob | StageJob, Failure | None] = {}

    def follow_curve(self, case: Case, data: str, steps: int, options: Options) -> Curve:
        """Trains a case on `data`, and compares every loss with that of eager in float64."""
        what = (reference_case(case), data, steps, options)
        reference = self._curve_reference(*what)
        if isinstance(reference, Failure):
            return _unproved_curve(case, reference)
        evidence = self._folder(f"curve-{data}-{steps}", case)
        make_folder(evidence)
        job = CurveJob(case=case, data=data, steps=steps, evidence=str(evidence), cache=self._cache(case))
        errand = self._staged_errand(job, options, data=data, steps=steps)
        failure = (
            errand if isinstance(errand, Failure) else self._finish(errand.job, case, options, errand.launcher)
        )
        if failure:
            return _failed_curve(case, failure)
        wanted = reference.arrays
        try:
            found = read_evidence(evidence)
            losses = [float(found[name]) for name in wanted if name in found]
        except (OSError, ValueError, TypeError, EOFError) as error:
            return _failed_curve(
                case, Failure(cause="no-result", message=f"it left no losses that can be read: {brief(error)}")
            )
        wider: list[Reference | Failure] = []

        def widen() -> Reference | None:
            wider.append(self._curve_reference(*what, widen=True))
            return wider[0] if isinstance(wider[0], Reference) else None

        parity = judge(found, reference, case.precision, widen)
        if wider and isinstance(wider[0], Failure):
            why = f"judged by one run of eager, since more failed: {wider[0].cause}, {wider[0].message}"
            parity = msgspec.structs.replace(parity, reason=why)
        return Curve(
            case=case,
            losses=losses,
            reference=[float(value) for value in wanted.values()],
            errors=[min(error, 1e300) for error in errors(wanted, found).values()],
            parity=parity,
        )

    def run_program(self, command: tuple[str, ...], case: Case, index: int, options: Options) -> Round:
        """A round of an executable that is no rung and needs nothing staged."""
        return self._run(self._job(case, options), index, options, SpawnLauncher(command, "executable"))

    def say(self, stage: str) -> None:
        self._on_stage(stage)

    def take_stacks(
        self, cases: Sequence[Case], counter: str, options: Options, taken: Callable[[Case, Path | Failure], None]
    ) -> None:
        """Runs one step of each with the counter of frames preloaded, `options.warm` of them at a time. `taken`
        hears of the folder with what the counter and Python wrote, or of what failed."""
        counted: list[tuple[Case, Path]] = []
        errands: list[Errand] = []
        for case in cases:
            folder = self._folder("frames", case)
            make_folder(folder)
            report = folder / COUNTED
            report.unlink(missing_ok=True)
            job = FramesJob(case=case, folder=str(folder), cache=self._cache(case))
            errand = self._staged_errand(job, options, {"LD_PRELOAD": counter, "TARE_FRAMES": str(report)})
            if isinstance(errand, Failure):
                taken(case, errand)
            else:
                counted.append((case, folder))
                errands.append(errand)

        def ended(at: int, ending: Ending) -> None:
            case, folder = counted[at]
            failure = failure_of(ending, options.timeout)
            if failure is None and not (folder / COUNTED).exists():
                failure = Failure(
                    cause="no-result", message="the worker did not mark the user's call (docs/protocol.md)"
                )
            taken(case, failure or folder)

        together(errands, options, max(options.warm, 1), ended, lambda: self._on_stage("waiting for another tare"))

    def _curve_reference(
        self, case: Case, data: str, steps: int, options: Options, widen: bool = False
    ) -> Reference | Failure:
        """Made once for all rungs. Data that do not fit the workload are the user's mistake, not a failure."""
        folder = self._folder(f"curve-reference-{data}-{steps}", case)
        job = ReferenceJob(case=case, folder=str(folder), data=data, steps=steps, widen=widen)
        if job not in self._made:
            self._on_stage("reference")
        failure = self._make(job, options)
        if failure and failure.exception == BadInput.__name__:
            raise BadInput(failure.message)
        no_result = Failure(cause="no-result", message="it left nothing that can be read")
        return failure or load_reference(folder) or no_result

    def _make(self, job: ReferenceJob | StageJob, options: Options) -> Failure | None:
        """Once for all that need it: what failed would fail for each of them, perhaps after a long time."""
        if job not in self._made:
            self._made[job] = self._finish(job, job.case, options)
        return self._made[job]

    def _staged_errand(
        self,
        job: CurveJob | FramesJob,
        options: Options,
        environment: dict[str, str] | None = None,
        data: str = "",
        steps: int = 0,
    ) -> Errand | Failure:
        """The job for the rung's executable, staged first, or for a Python worker."""
        case, rung = job.case, get_rung(job.case.rung)
        if not (isinstance(rung, NativeRung) and rung.is_executable(case)):
            return Errand(job, SpawnLauncher(variables=environment) if environment else self._launcher)
        try:
            command = self._command(rung, case)
        except TareError as error:
            return Failure(cause="not-installed", message=str(error), stage="build")
        staged = rung.staged_as(case)
        folder = self._folder(f"stage-{data}-{steps}" if steps else "stage", staged)
        staging = StageJob(case=staged, folder=str(folder), data=data, steps=steps)
        if staging not in self._staged and (failure := self._make(staging, options)):
            return failure
        return Errand(
            msgspec.structs.replace(job, stage=str(folder)), SpawnLauncher(command, "executable", environment)
        )

    def _finish(self, job: Job, case: Case, options: Options, launcher: Launcher | None = None) -> Failure | None:
        try:
            heard = self.send(job, options, case.device, launcher)
        except CannotStart as error:
            return Failure(cause="not-installed", message=str(error), stage="start")
        return heard if isinstance(heard, Failure) else None

    def _cache(self, case: Case) -> str | None:
        return str(self.cache_of(case)) if get_rung(case.rung).caches else None
