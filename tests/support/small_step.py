"""A small module lowered and run by the vendor rung's program for the CPU, beside float64 in torch."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tare.cases.case import Case, Mode
from tare.execute.curve import read_evidence
from tare.execute.jobs import RoundJob
from tare.lowering.lower import lower, write
from tare.measure.parity import compare, errors
from tare.native.build import executable
from tare.records.record import Parity
from tare.rungs.base import Arrays
from tare.rungs.numerics import Numerics, reference_numerics
from tare.rungs.program import TorchProgram
from tare.workloads.base import Batch, Workload

RATE = 0.01


class Small:
    """A definition of a workload: what `make` builds, on numbers of one shape, trained towards others."""

    def __init__(self, make: Callable[[], Any], shape: tuple[int, ...]) -> None:
        self._make, self._shape = make, shape

    def build(self) -> Any:
        return self._make()

    def inputs(self, batch: int) -> Batch:
        import torch

        x = torch.randn(batch, *self._shape)
        # Towards numbers of its own shape: the mean square tells every number of the result.
        with torch.no_grad():
            shape = self._make().train()(x).shape
        return Batch((x,), torch.randn(shape))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.mse_loss(output, target)


def prove(make: Callable[[], Any], shape: tuple[int, ...], mode: Mode, layout: str, folder: Path) -> Parity:
    """Outputs, or losses, gradients and updates of the first three steps."""
    workload = Workload(
        name="small",
        definition=Small(make, shape),
        domain="other",
        task="",
        source="",
        batch=4,
        layouts=("contiguous", "channels-last"),
        learning_rate=RATE,
    )
    trains = mode == "train"
    case = Case(
        workload="small",
        rung="vendor",
        mode=mode,
        batch=4,
        sizes={},
        layout=layout,  # type: ignore[arg-type]
        optimizer="sgd" if trains else None,
        threads=1,
    )
    batch = workload.inputs(4, {})
    tensors = (*batch.args, *([batch.target] if trains else []))
    write(lower(workload, case, tensors, "float32", None, RATE), folder)
    found = run(case, folder)
    reference = in_torch(workload, case, reference_numerics("fp32"))
    return compare(reference, found, "fp32", errors(reference, in_torch(workload, case, None)), "float64")


def in_torch(workload: Workload, case: Case, numerics: Numerics | None) -> Arrays:
    program = TorchProgram(workload, case, numerics)
    try:
        return program.evidence()
    finally:
        program.close()


def run(case: Case, folder: Path) -> Arrays:
    """What the program leaves as evidence of a staged step."""
    evidence = folder / "evidence"
    evidence.mkdir()
    job = RoundJob(case=case, budget_s=0.0, width=1.0, stage=str(folder), evidence=str(evidence))
    reading, writing = os.pipe()
    with os.fdopen(reading) as messages:
        done = subprocess.run(
            [str(executable("tare-vendor-cpu"))],
            input=msgspec.json.encode(job),
            env={**os.environ, "TARE_FD": str(writing)},
            pass_fds=(writing,),
            timeout=60,
        )
        os.close(writing)
        said = messages.read()
    assert done.returncode == 0, said
    return read_evidence(evidence)
