"""References of curves that fail are made once and named for every rung that needs them. Nothing is run here."""

from pathlib import Path
from typing import Any

import numpy as np
from builders import make_case

from tare.cases.options import Options
from tare.execute.curves import follow_curve
from tare.execute.executor import LocalExecutor
from tare.execute.launch import make_launcher
from tare.measure.parity import Reference, save_reference
from tare.protocol.jobs import BatchSource, CurveJob, Job, ReferenceJob
from tare.protocol.messages import Done
from tare.records.record import Failure
from tare.worker.staging import write_evidence

CASES = [make_case(rung=rung, mode="train", optimizer="sgd") for rung in ("eager", "torchscript")]
BATCHES = BatchSource(folder="data", orders=("order",), input=(8, 64), target=(8,))
LATE = Failure(cause="timeout", message="stopped after 9 s")


class Pretending(LocalExecutor):
    """Every rung's loss is a hundredth off. References fail where `failing` says so of their `widen`."""

    def __init__(self, scratch: Path, *failing: bool) -> None:
        super().__init__(make_launcher("spawn"), scratch)
        self.failing, self.jobs = failing, list[Job]()

    def ask(self, job: Job, *_: Any) -> Any:
        self.jobs.append(job)
        if isinstance(job, CurveJob):
            write_evidence(Path(job.evidence), {"loss/1": np.array(1.01)})
        elif isinstance(job, ReferenceJob):
            if job.widen in self.failing:
                return LATE
            if not job.widen:
                expected = Reference({"loss/1": np.array(1.0)}, {"loss/1": 0.0}, "eager float64")
                save_reference(Path(job.folder), expected)
        return Done()


def test_a_reference_that_fails_is_made_once_and_no_rung_is_run_for_nothing(tmp_path: Path) -> None:
    executor = Pretending(tmp_path, False)
    curves = [follow_curve(executor, case, BATCHES, Options()) for case in CASES]
    said = ("unchecked", "the reference failed: timeout, stopped after 9 s")
    assert [(curve.parity.status, curve.parity.reason) for curve in curves] == [said, said]
    assert [curve.failure for curve in curves] == [None, None]
    assert len(executor.jobs) == 1


def test_errors_that_cannot_be_widened_are_named_beside_the_verdict(tmp_path: Path) -> None:
    executor = Pretending(tmp_path, True)
    curves = [follow_curve(executor, case, BATCHES, Options()) for case in CASES]
    why = "judged by one run of eager, since more failed: timeout, stopped after 9 s"
    assert [(curve.parity.status, curve.parity.reason) for curve in curves] == [("different", why)] * 2
    assert sum(isinstance(job, ReferenceJob) and job.widen for job in executor.jobs) == 1
