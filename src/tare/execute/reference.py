"""The reference of a ladder: eager in float64, from the very weights and inputs that the rungs are given.

It runs on the case's own device: float64 there uses none of the low-precision paths that are being checked, and a
large batch would take minutes on a CPU. tests/gpu shows that it agrees with float64 on the CPU. A device without
float64 gets it from the CPU; where float64 does not fit into memory, float32 without TF32 stands in, named so.

Along a curve of losses rounding grows with every step, but passes through zero by chance, and where training is
chaotic a single path may stay near float64 by luck. The yardstick of a step is the largest error until then, of
eager and of eager from weights that are moved by one rounding each: paths that nothing but rounding tells apart.
"""

from itertools import accumulate
from pathlib import Path

import msgspec
import torch

from tare.cases.case import Case
from tare.execute.curve import batches_of
from tare.measure.parity import errors, save_reference
from tare.rungs.base import Arrays
from tare.rungs.numerics import Numerics, pin_flags, reference_numerics
from tare.rungs.program import TorchProgram
from tare.workloads import Batch, get_workload

WITHOUT_FLOAT64 = ("mps",)
# Two more paths: of seven of ResNet-50's, one stayed near float64 for six steps longer than the others.
NUDGES = (0, 1)


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
    yardstick = errors(reference, _evidence(case, None, batches))
    if steps:
        paths = [yardstick, *(errors(reference, _evidence(case, None, batches, seed)) for seed in NUDGES)]
        widest = (max(path[name] for path in paths) for name in yardstick)
        yardstick = dict(zip(yardstick, accumulate(widest, max), strict=True))
    save_reference(folder, reference, yardstick, f"eager {storage} on {device}")


def _evidence(case: Case, numerics: Numerics | None, batches: list[Batch], seed: int | None = None) -> Arrays:
    program = TorchProgram(get_workload(case.workload), case, numerics)
    try:
        if seed is not None:
            program.nudge(seed)
        return program.curve(batches) if batches else program.evidence()
    finally:
        program.close()
