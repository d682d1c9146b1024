"""The reference of a ladder: eager in float64, from the very weights and inputs that the rungs are given.

It runs on the case's own device: float64 there uses none of the low-precision paths that are being checked, and a
large batch would take minutes on a CPU. tests/gpu shows that it agrees with float64 on the CPU. A device without
float64 gets it from the CPU; where float64 does not fit into memory, float32 without TF32 stands in, named so.

The yardstick is eager's own error at the case's precision. In training that may be luck: where a ReLU's input
lies within rounding of zero, a single run shows nothing of what two correct programs may differ by. So a rung
that seems different is judged again by the widest of several paths of eager that nothing but rounding tells
apart: their weights and what their layers return are moved by a few roundings, in pairs, which tell flips from
what is smooth (measure/yardstick.py). That takes twice as long as all else here, and few rungs need it. Along a
curve of losses a flip grows with every step, but passes through zero by chance: there the yardstick of a step is
the largest error until then.

An inference has one path: what flips a ReLU or a maximum moves no output. So has training in less than TF32:
there so many things flip that eager's single run has its share, and a pair would only widen what is wide already.
"""

from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path

import msgspec
import torch

from tare.cases.case import Case
from tare.measure.parity import YARDSTICKS, errors, load_reference, save_reference, save_yardstick
from tare.measure.rounding_paths import errors_of_pair, widest
from tare.rungs.base import Arrays
from tare.rungs.torch.numerics import Numerics, pin_flags, reference_numerics
from tare.rungs.torch.program import TorchProgram
from tare.worker.loss_curve import batches_of
from tare.workloads import Batch, get_workload

WITHOUT_FLOAT64 = ("mps",)
# Seeds of the pairs: two, because one may by chance hardly move the input that flips.
NUDGES = (0, 1)
# What a number is moved by. A float32 as far as its neighbour, for the order of long sums adds up many roundings;
# TF32 keeps ten bits of what it multiplies.
ROUNDING = {"fp32": 2.0**-23, "tf32": 2.0**-11}
# By how many roundings a pair is moved: as far as a rung may be off in units of eager's own error, since one that
# sums in a worse order than eager also flips what lies further from zero.
REACH = YARDSTICKS


def make_reference(
    case: Case, folder: Path, data: str = "", steps: int = 0, parallel: bool = False, storage: str = "float64"
) -> None:
    """Computes the reference and eager's own error at the case's precision into a folder: for the first steps on
    the workload's own batch or, with `steps`, for a curve of losses on real data. In float32 where float64 has no
    room, unless other processes that work in `parallel` took it, and where `storage` asks; but a float32 case
    is never compared with float32."""
    pin_flags(msgspec.structs.replace(case, precision="fp32"))
    device = "cpu" if case.device_type in WITHOUT_FLOAT64 else case.device
    batches = batches_of(case, data, steps) if steps else []
    storage = "float64" if case.precision == "fp32" else storage
    wanted = msgspec.structs.replace(case, device=device)
    try:
        reference = _evidence(wanted, reference_numerics(case.precision, storage), batches)
    except torch.OutOfMemoryError:
        if parallel:
            raise
        torch.cuda.empty_cache()
        storage = "float32"
        reference = _evidence(wanted, reference_numerics(case.precision, storage), batches)
    pin_flags(case)
    own = errors(reference, _evidence(case, None, batches))
    save_reference(folder, reference, _until_then(own) if steps else own, f"eager {storage} on {device}")


def widen_reference(case: Case, folder: Path, data: str = "", steps: int = 0) -> bool:
    """Makes the yardstick of a reference know flips. False where it does so already, or has none to know."""
    found = load_reference(folder)
    if found is None or found.widened or case.mode != "train" or case.precision not in ROUNDING:
        return False
    pin_flags(case)
    batches = batches_of(case, data, steps) if steps else []
    step = REACH * ROUNDING[case.precision]
    paths = [found.yardstick]
    for seed in NUDGES:
        up, down = (_evidence(case, None, batches, (seed, towards)) for towards in (step, -step))
        paths.append(errors_of_pair(found.arrays, up, down, REACH))
    yardstick = widest(paths)
    save_yardstick(folder, _until_then(yardstick) if steps else yardstick)
    return True


def _until_then(errors_of_steps: Mapping[str, float]) -> dict[str, float]:
    return dict(zip(errors_of_steps, accumulate(errors_of_steps.values(), max), strict=True))


def _evidence(
    case: Case, numerics: Numerics | None, batches: list[Batch], nudge: tuple[int, float] | None = None
) -> Arrays:
    """From a model of its own: what a step leaves behind in one must not look like rounding in the next."""
    program = TorchProgram(get_workload(case.workload), case, numerics)
    try:
        if nudge:
            program.nudge(*nudge)
            program.jitter(*nudge)
        return program.curve(batches) if batches else program.evidence()
    finally:
        program.close()
