"""The proof of parity as a worker makes it, in the test's own process: shared by the CPU and the GPU tests."""

from pathlib import Path
from typing import Any

from tare.cases.case import Case, Mode, Precision
from tare.measure.parity import load_reference
from tare.protocol.jobs import reference_case
from tare.records.record import Parity
from tare.rungs import get_rung
from tare.rungs.torch.numerics import pin_flags
from tare.worker.reference import check_parity, make_reference
from tare.workloads import get_workload

# Sizes at which every workload takes a moment on two cores.
SMALL: dict[str, dict[str, int]] = {
    "mlp": {},
    "mnist_cnn": {},
    "lstm": {"hidden": 24, "input": 16, "layers": 2, "steps": 6},
    "resnet50": {"resolution": 64, "classes": 10},
}


# Where the reference of a case lies that an earlier test of this process has made: pytest keeps its folders.
_REFERENCES: dict[str, Path] = {}


def make(
    workload: str, rung: str, mode: Mode, precision: Precision = "fp32", batch: int = 4, **fields: Any
) -> Case:
    if mode == "train":
        fields.setdefault("optimizer", "sgd")
    sizes = {**get_workload(workload).defaults, **SMALL[workload]}
    return Case(workload=workload, rung=rung, mode=mode, precision=precision, batch=batch, sizes=sizes, **fields)


def check(case: Case, folder: Path) -> Parity:
    """Whether a rung computes the reference, asked after its step has run for a while."""
    wanted = reference_case(case)
    folder = _REFERENCES.setdefault(wanted.key, folder)
    if load_reference(folder) is None:
        make_reference(wanted, folder)
    pin_flags(case)
    program = get_rung(case.rung).prepare(get_workload(case.workload), case)
    try:
        for _ in range(3):
            program.step()
        return check_parity(program.evidence, folder, case)
    finally:
        program.close()
