"""The proof of parity as a worker makes it, in the test's own process: shared by the CPU and the GPU tests."""

from pathlib import Path
from typing import Any

from tare.cases.case import Case, Mode, Precision
from tare.measure.memory import MemoryMeter
from tare.measure.parity import load_reference
from tare.measure.sampler import SamplingLimits, sample
from tare.protocol.jobs import reference_case
from tare.records.record import Parity
from tare.rungs import get_rung
from tare.rungs.torch.numerics import pin_flags
from tare.worker.evidence import TimedEvidence
from tare.worker.reference import check_parity, make_reference
from tare.workloads import get_workload

# Sizes at which every workload takes a moment on two cores.
SMALL: dict[str, dict[str, int]] = {
    "mlp": {},
    "mnist_cnn": {},
    "lstm": {"hidden": 24, "input": 16, "layers": 2, "steps": 6},
    "resnet50": {"resolution": 64, "classes": 10},
}
# The transformer that frameworks outside torch run.
TRANSFORMER = {"nanogpt": {"vocabulary": 61, "width": 16, "layers": 2, "heads": 2, "length": 8}}


# Where the reference of a case lies that an earlier test of this process has made: pytest keeps its folders.
_REFERENCES: dict[str, Path] = {}


def make(
    workload: str, rung: str, mode: Mode, precision: Precision = "fp32", batch: int = 4, **fields: Any
) -> Case:
    if mode == "train":
        fields.setdefault("optimizer", "sgd")
    sizes = {**get_workload(workload).defaults, **(SMALL | TRANSFORMER)[workload]}
    return Case(workload=workload, rung=rung, mode=mode, precision=precision, batch=batch, sizes=sizes, **fields)


def check(case: Case, folder: Path) -> Parity:
    """Whether a rung computes the reference in the steps that are timed."""
    wanted = reference_case(case)
    folder = _REFERENCES.setdefault(wanted.key, folder)
    if load_reference(folder) is None:
        make_reference(wanted, folder)
    pin_flags(case)
    program = get_rung(case.rung).prepare(get_workload(case.workload), case)
    try:
        program.step()
        evidence = TimedEvidence(program, program.clock(), MemoryMeter(None))
        sample(evidence, SamplingLimits(budget_s=0.01, width=1.0), lambda _: None)
        return check_parity(lambda: evidence.arrays, folder, case)
    finally:
        program.close()
