"""Executables as workers: what Python does before and after them, in processes of its own."""

import time
from pathlib import Path

from tare.protocol.jobs import CheckJob, StageJob
from tare.protocol.messages import Checked, Prepared
from tare.rungs import get_rung
from tare.rungs.native.rung import NativeRung
from tare.rungs.torch.numerics import pin_flags
from tare.worker.loss_curve import read_evidence, stage_batches
from tare.worker.parity_check import prove
from tare.workloads import get_workload


def stage(job: StageJob) -> Prepared:
    """Exports, traces or compiles a workload for its executable. The time that takes is preparation."""
    rung = get_rung(job.case.rung)
    assert isinstance(rung, NativeRung)
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    flags = pin_flags(job.case)
    began = time.perf_counter()
    rung.stage(get_workload(job.case.workload), job.case, folder)
    if job.steps:
        stage_batches(job.case, job.data, job.steps, folder)
    return Prepared(build_s=0.0, prepare_s=time.perf_counter() - began, cache="cold", flags=flags)


def check(job: CheckJob) -> Checked:
    return Checked(prove(lambda: read_evidence(Path(job.evidence)), Path(job.reference), job.case))
