"""A small module lowered and run by a program of the vendor rung, beside float64 in torch."""

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tare.cases.case import Case, Mode, Precision
from tare.measure.parity import compare, errors
from tare.protocol.jobs import RoundJob
from tare.records.record import Parity
from tare.rungs.base import Arrays
from tare.rungs.torch.feeds import move
from tare.rungs.torch.numerics import PRECISIONS, Numerics, reference_numerics
from tare.rungs.torch.program import TorchProgram
from tare.rungs.vendor.lowering.lower import lower, write
from tare.worker.loss_curve import read_evidence
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


def prove(
    make: Callable[[], Any],
    shape: tuple[int, ...],
    mode: Mode,
    layout: str,
    folder: Path,
    program: Path,
    precision: Precision = "fp32",
    device: str = "cpu",
) -> Parity:
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
        precision=precision,
        device=device,
        layout=layout,  # type: ignore[arg-type]
        optimizer="sgd" if trains else None,
        threads=1,
    )
    numerics = PRECISIONS[precision]
    batch = move(workload.inputs(4, {}), "cpu", numerics, case.layout)
    tensors = (*batch.args, *([batch.target] if trains else []))
    write(lower(workload, case, tensors, numerics.storage, numerics.autocast, RATE), folder)
    found = run(case, folder, program)
    reference = in_torch(workload, case, reference_numerics(precision))
    return compare(reference, found, precision, errors(reference, in_torch(workload, case, None)), "float64")


def in_torch(workload: Workload, case: Case, numerics: Numerics | None) -> Arrays:
    program = TorchProgram(workload, case, numerics)
    try:
        return program.evidence()
    finally:
        program.close()


def run(case: Case, folder: Path, program: Path) -> Arrays:
    """What a program leaves as evidence of a staged step."""
    evidence = folder / "evidence"
    evidence.mkdir()
    job = RoundJob(case=case, budget_s=0.0, width=1.0, stage=str(folder), evidence=str(evidence))
    # A file: nobody reads while the program runs, and what it says may be more than a pipe holds.
    with tempfile.TemporaryFile("w+") as messages:
        done = subprocess.run(
            [str(program)],
            input=msgspec.json.encode(job),
            env={**os.environ, "TARE_FD": str(messages.fileno())},
            pass_fds=(messages.fileno(),),
            capture_output=True,
            timeout=120,
        )
        messages.seek(0)
        said = messages.read()
    assert done.returncode == 0, said + done.stderr.decode()
    return read_evidence(evidence)
