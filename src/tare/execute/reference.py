"""The reference of a ladder: eager in float64, from the very weights and inputs that the rungs are given.

It runs on the case's own device: float64 there uses none of the low-precision paths that are being checked, and a
large batch would take minutes on a CPU. tests/gpu shows that it agrees with float64 on the CPU. A device without
float64 gets it from the CPU; where float64 does not fit into memory, float32 without TF32 stands in, named so.
"""

from pathlib import Path

import msgspec
import torch

from tare.cases.case import Case
from tare.measure.parity import errors, save_reference
from tare.rungs.base import Arrays
from tare.rungs.numerics import pin_flags, reference_numerics
from tare.rungs.program import TorchProgram
from tare.workloads import get_workload

WITHOUT_FLOAT64 = ("mps",)


def make_reference(case: Case, folder: Path) -> None:
    """Computes the reference and the yardstick (eager's own error at the case's precision) into a folder."""
    pin_flags(msgspec.structs.replace(case, precision="fp32"))
    device = "cpu" if case.device_type in WITHOUT_FLOAT64 else case.device
    storage = "float64"
    try:
        reference = _evidence(msgspec.structs.replace(case, device=device), storage)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        storage = "float32"
        reference = _evidence(msgspec.structs.replace(case, device=device), storage)
    pin_flags(case)
    eager = TorchProgram(get_workload(case.workload), case)
    yardstick = errors(reference, eager.evidence())
    eager.close()
    save_reference(folder, reference, yardstick, f"eager {storage} on {device}")


def _evidence(case: Case, storage: str) -> Arrays:
    numerics = reference_numerics(case.precision, storage)
    program = TorchProgram(get_workload(case.workload), case, numerics)
    try:
        return program.evidence()
    finally:
        program.close()
