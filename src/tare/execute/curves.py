"""Loss curves: trains a rung on real data, and compares every loss with that of eager in float64."""

import hashlib

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput, brief
from tare.execute.executor import LocalExecutor
from tare.execute.rounds import unchecked
from tare.measure.parity import Reference, errors, judge, load_reference
from tare.protocol.jobs import BatchSource, CurveJob, ReferenceJob, reference_case
from tare.protocol.messages import Done
from tare.records.record import Failure, Parity
from tare.system.home import make_folder
from tare.worker.staging import read_evidence


class Curve(msgspec.Struct, kw_only=True):
    """The losses of a rung, those of float64, and the relative error of each."""

    case: Case
    losses: list[float] = []
    reference: list[float] = []
    errors: list[float] = []
    parity: Parity
    failure: Failure | None = None


def follow_curve(executor: LocalExecutor, case: Case, batches: BatchSource, options: Options) -> Curve:
    """The losses of one rung over the batches of the first order."""
    reference = _curve_reference(executor, case, batches, options)
    if isinstance(reference, Failure):
        # Nothing to compare with: the rung has not failed, and is not run.
        return Curve(case=case, parity=unchecked(reference))
    evidence = make_folder(executor.folder(_kind("curve", batches), case))
    if reference.unchecked:
        return Curve(case=case, parity=Parity(status="unchecked", reason=reference.unchecked))
    dropout = not reference.without_dropout
    worker = executor.rung_worker(case, options, dropout=dropout)
    if isinstance(worker, Failure):
        return _failed_curve(case, worker)
    job = CurveJob(
        case=case,
        batches=batches,
        evidence=str(evidence),
        cache=executor.cache_folder(case),
        stage=worker.stage,
        dropout=dropout,
    )
    done = executor.ask(job, Done, options, worker.launcher)
    if isinstance(done, Failure):
        return _failed_curve(case, done)
    expected = reference.arrays
    try:
        arrays = read_evidence(evidence)
        losses = [float(arrays[name]) for name in expected if name in arrays]
    except (OSError, ValueError, TypeError, EOFError) as error:
        message = f"it left no losses that can be read: {brief(error)}"
        return _failed_curve(case, Failure(cause="no-result", message=message))
    widening: Reference | Failure | None = None

    def widen() -> Reference | None:
        nonlocal widening
        widening = _curve_reference(executor, case, batches, options, widen=True)
        return widening if isinstance(widening, Reference) else None

    parity = judge(arrays, reference, case.precision, widen)
    if isinstance(widening, Failure):
        reason = f"judged by one run of eager, since more failed: {widening.cause}, {widening.message}"
        parity = msgspec.structs.replace(parity, reason=reason)
    return Curve(
        case=case,
        losses=losses,
        reference=[float(value) for value in expected.values()],
        errors=[min(error, 1e300) for error in errors(expected, arrays).values()],
        parity=parity,
    )


def _curve_reference(
    executor: LocalExecutor, case: Case, batches: BatchSource, options: Options, widen: bool = False
) -> Reference | Failure:
    """Made once for all rungs. Data that do not fit the workload are the user's mistake: BadInput."""
    folder = executor.folder(_kind("curve-reference", batches), reference_case(case))
    job = ReferenceJob(case=reference_case(case), folder=str(folder), batches=batches, widen=widen)
    made = executor.run_once(job, options)
    if isinstance(made, Failure):
        if made.exception == BadInput.__name__:
            raise BadInput(made.message)
        return made
    return load_reference(folder) or Failure(cause="no-result", message="it left nothing that can be read")


def _kind(prefix: str, batches: BatchSource) -> str:
    """The name of a folder for these batches alone."""
    return f"{prefix}-{hashlib.sha256(repr(batches).encode()).hexdigest()[:16]}"


def _failed_curve(case: Case, failure: Failure) -> Curve:
    return Curve(case=case, parity=Parity(status="unchecked", reason=failure.message), failure=failure)
