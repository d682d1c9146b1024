"""A small module, lowered and run by an executable of the vendor rung, compared with float64 in torch."""

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from verdicts import judging

from tare.cases.case import Case, Mode, Precision
from tare.protocol.jobs import RoundJob, reference_case
from tare.records.record import Parity
from tare.rungs.base import Arrays
from tare.rungs.base import learning_rate as learning_rate_of
from tare.rungs.torch.feeds import move
from tare.rungs.torch.numerics import PRECISIONS
from tare.rungs.vendor.lowering.lower import flat_tensors, lower
from tare.worker.staging import read_evidence
from tare.workloads.base import Batch, Workload
from tare.workloads.variants import make_batches


class SmallWorkload:
    """The definition of a workload: the module that `make` builds, on random inputs, with random targets."""

    def __init__(self, make: Callable[[], Any], shape: tuple[int, ...]) -> None:
        self._make, self._shape = make, shape

    def build(self) -> Any:
        return self._make()

    def inputs(self, batch: int) -> Batch:
        import torch

        x = torch.randn(batch, *self._shape)
        # A target for every element of the result, so that the loss depends on each.
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
    learning_rate: float = 0.01,
    kernels: str = "",
    layouts: tuple[str, ...] = ("contiguous", "channels-last"),
) -> Parity:
    """The parity of outputs, or of losses, gradients and updates. `kernels` names the kind of device that kernels
    are generated for, where it is not the one that the reference is computed on."""
    workload = Workload(
        name="small",
        definition=SmallWorkload(make, shape),
        domain="other",
        task="",
        source="",
        batch=4,
        layouts=layouts,
        learning_rate=learning_rate,
    )
    return prove_workload(workload, mode, layout, folder, program, precision, device, kernels=kernels)


def prove_workload(
    workload: Workload,
    mode: Mode,
    layout: str,
    folder: Path,
    program: Path,
    precision: Precision = "fp32",
    device: str = "cpu",
    smoke: bool = False,
    kernels: str = "",
) -> Parity:
    trains = mode == "train"
    sizes = workload.smoke_sizes if smoke else workload.defaults
    case = Case(
        workload=workload.name,
        rung="vendor",
        mode=mode,
        batch=workload.smoke_batch if smoke else workload.batch,
        sizes=sizes,
        precision=precision,
        device=device,
        layout=layout,  # type: ignore[arg-type]
        optimizer=workload.optimizer if trains else None,  # type: ignore[arg-type]
        threads=1,
    )
    numerics = PRECISIONS[precision]
    moved = [move(batch, "cpu", numerics, case.layout) for batch in make_batches(workload, case.batch, sizes)]
    rate = learning_rate_of(workload, case) if trains else 0.0
    lowered = msgspec.structs.replace(case, device=kernels) if kernels else case
    plan = lower(workload, lowered, moved[0], numerics.storage, numerics.autocast, rate)
    plan.write(folder, [flat_tensors(batch, trains) for batch in moved])
    evidence = run(case, folder, program)
    with judging(workload, reference_case(case)) as judge:
        return judge.judge(lambda: evidence)


def run(case: Case, folder: Path, program: Path) -> Arrays:
    """The evidence that an executable writes for a staged step."""
    evidence = folder / "evidence"
    evidence.mkdir()
    job = RoundJob(case=case, budget_s=0.0, width=1.0, stage=str(folder), evidence=str(evidence))
    # A file, because nobody reads while the program runs and a pipe may be too small for its messages.
    with tempfile.TemporaryFile("w+") as messages:
        process = subprocess.run(
            [str(program)],
            input=msgspec.json.encode(job),
            env={**os.environ, "TARE_FD": str(messages.fileno())},
            pass_fds=(messages.fileno(),),
            capture_output=True,
            timeout=300,
        )
        messages.seek(0)
        text = messages.read()
    assert process.returncode == 0, text + process.stderr.decode()
    return read_evidence(evidence)
