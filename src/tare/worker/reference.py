"""The reference of a ladder: eager in float64, from the same weights and inputs as the rungs; and the parity
check.

The reference runs on the case's own device: float64 there uses none of the low-precision paths that are being
checked, and a large batch would take minutes on a CPU. tests/gpu shows that it agrees with float64 on the CPU. A
device without float64 gets a reference from the CPU. Where float64 does not fit into memory, float32 without TF32
takes its place, and the record says so.

Tolerances follow eager's own error at the case's precision. One run of eager may underestimate it, so a rung that
seems different is compared again with the largest error of several perturbed runs (tare.measure.parity). That
takes twice as long as everything else here, and few rungs need it. Along a curve of losses a flip grows with every
step but may cross zero, so the error of a step is the largest error up to that step.

A model that draws random numbers differs from itself. The reference is therefore computed twice. Where the two
differ, dropout is turned off (tare.workloads.randomness) and the rungs are compared without it, in rounds of their
own. Where they still differ, or two builds give different weights or inputs, nothing can be compared, and the
reference says why.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch
from torch.utils._pytree import tree_leaves

from tare.cases.case import Case
from tare.measure.parity import (
    MULTIPLE,
    Reference,
    cancellation,
    errors,
    errors_of_pair,
    judge,
    load_reference,
    save_eager_errors,
    save_reference,
    update_errors,
    widest,
)
from tare.measure.plausible import shortest_s
from tare.measure.work import count_work
from tare.protocol.jobs import BatchSource, CheckJob, ReferenceJob, reference_case
from tare.protocol.messages import Checked, Prepared, Send
from tare.records.record import Parity
from tare.rungs.base import Arrays
from tare.rungs.torch.numerics import Numerics, pin_flags, reference_numerics
from tare.rungs.torch.program import TorchProgram
from tare.rungs.torch.whole_step import eager_program
from tare.worker.batches import batches_of
from tare.worker.preparation import one_core
from tare.worker.staging import read_evidence
from tare.workloads import Batch, Workload, get_workload
from tare.workloads.randomness import without_dropout

WITHOUT_FLOAT64 = ("mps",)
# Seeds of the perturbed pairs, and of two runs that should agree: two pairs, because one may by chance hardly move
# the input that flips.
SEEDS = (0, 1)
# One rounding. For float32 the distance to the next number, since long sums accumulate many roundings; TF32 keeps
# ten bits of what it multiplies. Half precisions round the result of each layer to the nearest number, and are off
# by a quarter of the distance to the next; four of these is the smallest perturbation that they can hold.
ROUNDING = {
    "fp32": 2.0**-23,
    "tf32": 2.0**-11,
    "bf16": 2.0**-9,
    "amp-bf16": 2.0**-9,
    "fp16": 2.0**-12,
    "amp-fp16": 2.0**-12,
}
# How far one more run is perturbed, as a share: its change shows the terms of a tensor, not its rounding.
FAR = 2.0**-13
FAR_SEED = 2
# Without a scaler, gradients in fp16 underflow: a loss that is smaller by this factor shows which.
UNDERFLOW_SCALE = 2.0**-2
# Types in which a weight cannot hold a perturbation of a few roundings.
HALF = ("bfloat16", "float16")
# Two runs in float64 that differ by more than this have drawn different random numbers. (Atomic additions on a GPU
# change the last digit, which a deep network amplifies.)
RANDOM = 1e-8
# How many roundings a pair is perturbed by: as far as a rung may be off in units of eager's own error, since a
# rung that sums in a worse order than eager also flips inputs further from zero.
REACH = MULTIPLE


def run_reference_job(job: ReferenceJob, _: Send) -> Prepared:
    case, folder, parallel = job.case, Path(job.folder), job.cores is not None
    if job.widen:
        widen_reference(case, folder, job.batches)
    else:
        with one_core(parallel):
            make_reference(case, folder, job.batches, parallel, job.storage)
    return Prepared(build_s=0.0, prepare_s=0.0, cache="none")


def check_evidence(job: CheckJob, _: Send) -> Checked:
    """Compares what an executable wrote."""
    evidence = read_evidence(Path(job.evidence))
    return Checked(check_parity(lambda: evidence, Path(job.reference), job.case, job.step_s))


def check_parity(evidence: Callable[[], Arrays], folder: Path, case: Case, step_s: float | None = None) -> Parity:
    """Compares a rung's evidence with the reference in a folder. A rung whose step took `step_s`, less than its
    work can take, is not believed."""
    reference = load_reference(folder)
    if reference is None:
        return Parity(status="unchecked", reason="the reference could not be computed")
    if step_s is not None and step_s < (shortest := shortest_s(reference.flops, case.precision, case.device)):
        reason = (
            f"a step took {step_s * 1e6:.3g} us, and its {reference.flops:.3g} FLOPs take {shortest * 1e6:.3g} us "
            "or more on any such device: it did not do its work"
        )
        return Parity(status="unchecked", reason=reason)

    def widened() -> Reference | None:
        try:
            return load_reference(folder) if widen_reference(reference_case(case), folder) else None
        except torch.OutOfMemoryError:
            # The memory of the rung is still in use beside eager's.
            return None

    return judge(evidence(), reference, case.precision, widened)


def make_reference(
    case: Case,
    folder: Path,
    source: BatchSource | None = None,
    parallel: bool = False,
    storage: str = "float64",
) -> None:
    """Writes the reference and eager's own errors at the case's precision into a folder: for the first steps on
    the workload's own batch or, with a `source`, for a curve of losses on real data. It is in float32 where
    `storage` says so, or where float64 does not fit into memory (unless processes that work in `parallel` may
    hold that memory); a float32 case always gets float64."""
    pin_flags(msgspec.structs.replace(case, precision="fp32"))
    batches = list(batches_of(case, source)) if source else []
    storage = "float64" if case.precision == "fp32" else storage
    reference_on = _on_reference_device(case)
    try:
        exact = _exact(reference_on, reference_numerics(case.precision, storage), batches)
    except torch.OutOfMemoryError:
        if parallel:
            raise
        torch.cuda.empty_cache()
        storage = "float32"
        exact = _exact(reference_on, reference_numerics(case.precision, storage), batches)
    except Exception:
        if not get_workload(case.workload).is_step:
            raise
        # The user's code may create float32 tensors itself.
        storage = "float32"
        exact = _exact(reference_on, reference_numerics(case.precision, storage), batches)
    described = f"eager {storage} on {reference_on.device}{' with dropout off' if exact.without_dropout else ''}"
    if exact.unchecked:
        save_reference(folder, Reference({}, {}, described, unchecked=exact.unchecked))
        return
    pin_flags(case)
    with without_dropout(exact.without_dropout):
        run = _run(case, None, batches, counted=not batches)
    if reseeded := next(
        (name for name in exact.run.weights if run.weights[name] != exact.run.weights[name]), None
    ):
        reason = f"two builds of the model have different weights ({reseeded}): they do not follow torch's seed"
        save_reference(folder, Reference({}, {}, described, unchecked=reason))
        return
    own = _errors_of(
        case, exact.run.evidence, errors(exact.run.evidence, run.evidence), run.norms, of_losses=bool(source)
    )
    save_reference(
        folder,
        Reference(exact.run.evidence, own, described, without_dropout=exact.without_dropout, flops=run.flops),
    )


def widen_reference(case: Case, folder: Path, source: BatchSource | None = None) -> bool:
    """Widens eager's errors in a reference by perturbed runs. False where that was done already."""
    reference = load_reference(folder)
    if reference is None or reference.widened or reference.unchecked:
        return False
    pin_flags(case)
    batches = list(batches_of(case, source)) if source else []
    step = REACH * ROUNDING[case.precision]
    runs = [reference.eager_errors]
    norms: dict[str, float] = {}
    with without_dropout(reference.without_dropout):
        for seed in SEEDS:
            up, down = (_run(case, None, batches, (seed, share)) for share in (step, -step))
            norms = up.norms
            runs.append(errors_of_pair(reference.arrays, up.evidence, down.evidence, REACH))
        # Kernels of another layout round otherwise, and rungs in that layout are compared with this reference too.
        for layout in get_workload(case.workload).layouts:
            if layout != case.layout:
                other = _run(msgspec.structs.replace(case, layout=layout), None, batches)
                runs.append(errors(reference.arrays, other.evidence))
        if case.precision == "fp16" and case.mode == "train" and source is None:
            runs.append(_underflow_errors(case, reference.arrays))
        wide = widest(runs)
        far = _run(_on_reference_device(case), _exact_numerics(case, reference), batches, (FAR_SEED, FAR)).evidence
        factors = cancellation(reference.arrays, far, FAR)
        wide = {name: error * factors[name] for name, error in wide.items()}
    of_losses = source is not None
    save_eager_errors(folder, reference, _errors_of(case, reference.arrays, wide, norms, of_losses))
    return True


def _underflow_errors(case: Case, reference: Arrays) -> dict[str, float]:
    """Errors of gradients from a loss that is scaled down. A power of two changes nothing but what underflows, and
    a rung that stores more of the backward pass than eager loses more there."""
    program = TorchProgram(get_workload(case.workload), case)
    try:
        objective = program.objective
        program.objective = lambda args, target: UNDERFLOW_SCALE * objective(args, target)
        program.step = program.plain_step()
        gradients = {
            name: values / UNDERFLOW_SCALE
            for name, values in program.evidence().items()
            if name.startswith("gradient/")
        }
    finally:
        program.close()
    off = errors(reference, gradients)
    return {name: off[name] for name in gradients}


def _on_reference_device(case: Case) -> Case:
    return msgspec.structs.replace(case, device="cpu") if case.device_type in WITHOUT_FLOAT64 else case


def _exact_numerics(case: Case, reference: Reference) -> Numerics:
    storage = next((storage for storage in ("float64", "float32") if storage in reference.described), "float64")
    return reference_numerics(case.precision, storage)


def _errors_of(
    case: Case, reference: Arrays, wide: dict[str, float], norms: Mapping[str, float], of_losses: bool
) -> dict[str, float]:
    if of_losses:
        return dict(zip(wide, accumulate(wide.values(), max), strict=True))
    # Only weights in float32 have updates in the evidence.
    return update_errors(reference, wide, norms, ROUNDING["fp32"], adam=case.optimizer in ("adam", "adamw"))


class _Run(NamedTuple):
    """What the steps of a new program left behind; checksums of the weights that it started from, and the norms
    of its parameters."""

    evidence: Arrays
    weights: dict[str, int]
    norms: dict[str, float]
    flops: float = 0.0
    # What a step of inference leaves for the next one, if anything.
    carried_over: str = ""


class _Exact(NamedTuple):
    """A run that is repeatable, or why there is none."""

    run: _Run
    without_dropout: bool = False
    unchecked: str = ""


def _exact(case: Case, numerics: Numerics, batches: list[Batch]) -> _Exact:
    """Computes the reference, and the same once more; where they differ, again without dropout."""
    workload = get_workload(case.workload)
    if not batches and not _inputs_repeat(workload, case):
        reason = "two calls of inputs() give different batches: they do not follow torch's seed"
        return _Exact(_Run({}, {}, {}), unchecked=reason)
    differs = ""
    for dropout_off in (False, True):
        with without_dropout(dropout_off):
            run = _run(case, numerics, batches)
            again = _run(case, numerics, batches, seed=1, first=True)
        if run.weights != again.weights:
            # The comparison of builds will say so.
            return _Exact(run)
        apart = errors({name: run.evidence[name] for name in again.evidence}, again.evidence)
        worst = max(apart, key=lambda name: apart[name], default=None)
        if worst is None or apart[worst] <= RANDOM:
            return _Exact(run, without_dropout=dropout_off, unchecked=again.carried_over)
        differs = differs or f"{worst} by {apart[worst]:.2g}"
    reason = f"a step draws random numbers, with dropout off as well: two runs in float64 differ in {differs}"
    return _Exact(_Run({}, {}, {}), unchecked=reason)


def _inputs_repeat(workload: Workload, case: Case) -> bool:
    first, second = (
        [leaf for leaf in tree_leaves(workload.inputs(case.batch, case.sizes)) if isinstance(leaf, torch.Tensor)]
        for _ in range(2)
    )
    return len(first) == len(second) and all(map(torch.equal, first, second))


def _run(
    case: Case,
    numerics: Numerics | None,
    batches: list[Batch],
    perturbation: tuple[int, float] | None = None,
    seed: int = 0,
    first: bool = False,
    counted: bool = False,
) -> _Run:
    """From a new model: what the steps of one run leave behind must not look like rounding in the next. `seed` is
    for what the steps draw, after the weights and inputs. `first`: only the first step on each batch."""
    program = eager_program(get_workload(case.workload), case, numerics)
    torch.manual_seed(seed)
    try:
        weights = {name: _checksum(tensor) for name, tensor in program.model.state_dict().items()}
        norms = {name: float(tensor.detach().norm()) for name, tensor in program.model.named_parameters()}
        if perturbation:
            if program.trains and program.numerics.storage not in HALF:
                program.perturb_weights(*perturbation)
            program.perturb_outputs(*perturbation)
        if batches:
            evidence = program.curve(batches[:1] if first else batches)
        else:
            evidence = program.first_steps() if first else program.evidence()
        carried_over = _carried_over(program, evidence) if first and not batches and not program.trains else ""
        return _Run(evidence, weights, norms, _flops(program) if counted else 0.0, carried_over)
    finally:
        program.close()


def _carried_over(program: TorchProgram, first_steps: Arrays) -> str:
    """Why a second step of inference on the same batch computes something else than the first one did; empty where
    it does not. (In training the state is restored before a step that is compared.)"""
    first = {name: values for name, values in first_steps.items() if name.endswith("@0")}

    def apart() -> tuple[float, str]:
        off = errors(first, program.name_arrays(program.step(), 0, 1))
        return max(((error, name) for name, error in off.items()), default=(0.0, ""))

    error, name = apart()
    if error <= RANDOM:
        return ""
    program.select(0)
    what = "overwrites its input" if apart()[0] <= RANDOM else "depends on the steps before it"
    return f"a step {what}: a second step on the same batch differs from the first in {name} by {error:.2g}"


def _flops(program: TorchProgram) -> float:
    """The FLOPs of a step; 0 where counting fails, which may happen with another version of torch."""
    with suppress(Exception):
        return float(count_work(program.step).flops)
    return 0.0


def _checksum(tensor: torch.Tensor) -> int:
    """A sum that is the same in every order, of the bits of the values in float32, which all precisions share."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    bits = tensor.detach().float().contiguous().view(torch.int32)
    return int(bits.sum(dtype=torch.int64))
