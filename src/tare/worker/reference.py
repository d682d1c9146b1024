"""The reference of a ladder: eager in float64, from the same weights and inputs as the rungs; and the parity
check.

The reference runs on the case's own device: float64 there uses none of the low-precision paths that are being
checked, and a large batch would take minutes on a CPU. tests/gpu shows that it agrees with float64 on the CPU. A
device without float64 gets a reference from the CPU. Where float64 does not fit into memory, float32 without TF32
takes its place, and the record says so.

Tolerances follow eager's own error at the case's precision. In training one run of eager may underestimate it,
so a rung that seems different is compared again with the largest error of several perturbed runs
(tare.measure.parity). That takes twice as long as everything else here, and few rungs need it. Along a curve of
losses a flip grows with every step but may cross zero, so the error of a step is the largest error up to that
step.

Inference needs no perturbed runs, because what flips a ReLU or a maximum does not move the output. Nor does
training in less than TF32: so much flips there that eager's single run shows it.
"""

from collections.abc import Callable, Mapping
from itertools import accumulate
from pathlib import Path

import msgspec
import torch

from tare.cases.case import Case
from tare.measure.parity import (
    MULTIPLE,
    Reference,
    errors,
    errors_of_pair,
    judge,
    load_reference,
    save_eager_errors,
    save_reference,
    widest,
)
from tare.protocol.jobs import CheckJob, ReferenceJob, reference_case
from tare.protocol.messages import Checked, Prepared, Send
from tare.records.record import Parity
from tare.rungs.base import Arrays
from tare.rungs.torch.numerics import Numerics, pin_flags, reference_numerics
from tare.rungs.torch.program import TorchProgram
from tare.worker.preparation import one_core
from tare.worker.staging import batches_of, read_evidence
from tare.workloads import Batch, get_workload

WITHOUT_FLOAT64 = ("mps",)
# Seeds of the perturbed pairs: two, because one may by chance hardly move the input that flips.
SEEDS = (0, 1)
# One rounding. For float32 the distance to the next number, since long sums accumulate many roundings; TF32
# keeps ten bits of what it multiplies.
ROUNDING = {"fp32": 2.0**-23, "tf32": 2.0**-11}
# How many roundings a pair is perturbed by: as far as a rung may be off in units of eager's own error, since a
# rung that sums in a worse order than eager also flips inputs further from zero.
REACH = MULTIPLE


def run_reference_job(job: ReferenceJob, _: Send) -> Prepared:
    case, folder, parallel = job.case, Path(job.folder), job.cores is not None
    if job.widen:
        widen_reference(case, folder, job.data, job.steps)
    else:
        with one_core(parallel):
            make_reference(case, folder, job.data, job.steps, parallel, job.storage)
    return Prepared(build_s=0.0, prepare_s=0.0, cache="none")


def check_evidence(job: CheckJob, _: Send) -> Checked:
    """Compares what an executable wrote."""
    return Checked(check_parity(lambda: read_evidence(Path(job.evidence)), Path(job.reference), job.case))


def check_parity(evidence: Callable[[], Arrays], folder: Path, case: Case) -> Parity:
    """Compares a rung's evidence with the reference in a folder."""
    reference = load_reference(folder)
    if reference is None:
        return Parity(status="unchecked", reason="the reference could not be computed")

    def widened() -> Reference | None:
        try:
            return load_reference(folder) if widen_reference(reference_case(case), folder) else None
        except torch.OutOfMemoryError:
            # The memory of the rung is still in use beside eager's.
            return None

    return judge(evidence(), reference, case.precision, widened)


def make_reference(
    case: Case, folder: Path, data: str = "", steps: int = 0, parallel: bool = False, storage: str = "float64"
) -> None:
    """Writes the reference and eager's own errors at the case's precision into a folder: for the first steps on
    the workload's own batch or, with `steps`, for a curve of losses on real data. It is in float32 where
    `storage` says so, or where float64 does not fit into memory (unless processes that work in `parallel` may
    hold that memory); a float32 case always gets float64."""
    pin_flags(msgspec.structs.replace(case, precision="fp32"))
    device = "cpu" if case.device_type in WITHOUT_FLOAT64 else case.device
    batches = batches_of(case, data, steps) if steps else []
    storage = "float64" if case.precision == "fp32" else storage
    reference_on = msgspec.structs.replace(case, device=device)
    try:
        reference = _evidence(reference_on, reference_numerics(case.precision, storage), batches)
    except torch.OutOfMemoryError:
        if parallel:
            raise
        torch.cuda.empty_cache()
        storage = "float32"
        reference = _evidence(reference_on, reference_numerics(case.precision, storage), batches)
    pin_flags(case)
    own = errors(reference, _evidence(case, None, batches))
    save_reference(folder, reference, _running_maximum(own) if steps else own, f"eager {storage} on {device}")


def widen_reference(case: Case, folder: Path, data: str = "", steps: int = 0) -> bool:
    """Widens eager's errors in a reference by perturbed runs. False where that was done, or nothing can flip."""
    reference = load_reference(folder)
    if reference is None or reference.widened or case.mode != "train" or case.precision not in ROUNDING:
        return False
    pin_flags(case)
    batches = batches_of(case, data, steps) if steps else []
    step = REACH * ROUNDING[case.precision]
    runs = [reference.eager_errors]
    for seed in SEEDS:
        up, down = (_evidence(case, None, batches, (seed, share)) for share in (step, -step))
        runs.append(errors_of_pair(reference.arrays, up, down, REACH))
    wide = widest(runs)
    save_eager_errors(folder, _running_maximum(wide) if steps else wide)
    return True


def _running_maximum(errors_of_steps: Mapping[str, float]) -> dict[str, float]:
    return dict(zip(errors_of_steps, accumulate(errors_of_steps.values(), max), strict=True))


def _evidence(
    case: Case, numerics: Numerics | None, batches: list[Batch], perturbation: tuple[int, float] | None = None
) -> Arrays:
    """From a new model: what the steps of one run leave behind must not look like rounding in the next."""
    program = TorchProgram(get_workload(case.workload), case, numerics)
    try:
        if perturbation:
            program.perturb_weights(*perturbation)
            program.perturb_outputs(*perturbation)
        return program.curve(batches) if batches else program.evidence()
    finally:
        program.close()
