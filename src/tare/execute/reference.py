"""The reference of a ladder: eager in float64, from the very weights and inputs that the rungs are given.

It runs on the case's own device: float64 there uses none of the low-precision paths that are being checked, and a
large batch would take minutes on a CPU. tests/gpu shows that it agrees with float64 on the CPU. A device without
float64 gets it from the CPU; where float64 does not fit into memory, float32 without TF32 stands in, named so.

The yardstick of a training is the widest of several paths of eager that nothing but rounding tells apart: they
start from weights that are moved by a few roundings. For the first steps what the layers return is moved as
well, and the paths come in pairs, which tell flips from what is smooth (measure/yardstick.py). Along a curve of
losses rounding grows with every step, but passes through zero by chance, and where training is chaotic a single
path may stay near float64 by luck: there the yardstick of a step is the largest error of any path until then. An
inference has one path: what flips a ReLU or a maximum moves no output. So has training in less than float32: there
so many things flip that eager's single run has its share, and a pair would only widen what is wide already.
"""

from itertools import accumulate
from pathlib import Path

import msgspec
import torch

from tare.cases.case import Case
from tare.execute.curve import batches_of
from tare.measure.parity import YARDSTICKS, errors, save_reference
from tare.measure.yardstick import errors_of_pair, widest
from tare.rungs.base import Arrays
from tare.rungs.numerics import Numerics, pin_flags, reference_numerics
from tare.rungs.program import TorchProgram
from tare.workloads import Batch, get_workload

WITHOUT_FLOAT64 = ("mps",)
# Seeds of the moved weights. A curve has two more paths: of seven of ResNet-50's, one stayed near float64 for six
# steps longer than the others. A step has two pairs, because one may by chance hardly move the input that flips.
NUDGES = (0, 1)
# What a float32 is moved by: as far as its neighbour, for the order of long sums adds up many roundings.
ROUNDING = 2.0**-23
# By how many roundings a pair is moved: as far as a rung may be off in units of eager's own error, since one that
# sums in a worse order than eager also flips what lies further from zero.
REACH = YARDSTICKS


def make_reference(case: Case, folder: Path, data: str = "", steps: int = 0) -> None:
    """Computes the reference and the yardstick (eager's own error at the case's precision) into a folder: for the
    first steps on the workload's own batch or, with `steps`, for a curve of losses on real data."""
    pin_flags(msgspec.structs.replace(case, precision="fp32"))
    device = "cpu" if case.device_type in WITHOUT_FLOAT64 else case.device
    batches = batches_of(case, data, steps) if steps else []
    storage = "float64"
    wanted = msgspec.structs.replace(case, device=device)
    try:
        reference = _evidence(wanted, reference_numerics(case.precision, storage), batches)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        storage = "float32"
        reference = _evidence(wanted, reference_numerics(case.precision, storage), batches)
    pin_flags(case)
    yardstick = _curve_yardstick(case, reference, batches) if steps else _step_yardstick(case, reference)
    save_reference(folder, reference, yardstick, f"eager {storage} on {device}")


def _step_yardstick(case: Case, reference: Arrays) -> dict[str, float]:
    own = errors(reference, _evidence(case, None, []))
    if case.mode == "infer" or case.precision != "fp32":
        return own
    step = REACH * ROUNDING
    paths = [own]
    for seed in NUDGES:
        up, down = (_evidence(case, None, [], (seed, towards)) for towards in (step, -step))
        paths.append(errors_of_pair(reference, up, down, REACH))
    return widest(paths)


def _curve_yardstick(case: Case, reference: Arrays, batches: list[Batch]) -> dict[str, float]:
    nudges = [None, *((seed, ROUNDING) for seed in NUDGES)]
    found = widest(errors(reference, _evidence(case, None, batches, nudge)) for nudge in nudges)
    return dict(zip(found, accumulate(found.values(), max), strict=True))


def _evidence(
    case: Case, numerics: Numerics | None, batches: list[Batch], nudge: tuple[int, float] | None = None
) -> Arrays:
    """From a model of its own: what a step leaves behind in one must not look like rounding in the next."""
    program = TorchProgram(get_workload(case.workload), case, numerics)
    try:
        if nudge:
            program.nudge(*nudge)
            if not batches:
                program.jitter(*nudge)
        return program.curve(batches) if batches else program.evidence()
    finally:
        program.close()
