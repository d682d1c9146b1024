"""Verdicts of parity within one process: the reference and what is compared with it, without rounds."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tare.cases.case import Case
from tare.measure.parity import Reference, load_reference
from tare.records.record import Parity
from tare.rungs import get_rung
from tare.rungs.base import Arrays
from tare.rungs.torch.numerics import Numerics, pin_flags
from tare.rungs.torch.program import TorchProgram
from tare.worker import reference as worker_reference
from tare.worker.reference import check_parity, make_reference
from tare.workloads.base import Workload
from tare.workloads.randomness import without_dropout


def case_of(workload: Workload, mode: str, precision: str, device: str = "cpu", rung: str = "eager") -> Case:
    optimizer = workload.optimizer if mode == "train" else None
    fields: dict[str, Any] = {"mode": mode, "precision": precision, "device": device, "optimizer": optimizer}
    return Case(workload=workload.name, rung=rung, batch=workload.batch, sizes={}, **fields)


class Judge:
    """Judges evidence of one case, whose reference is made once."""

    def __init__(self, workload: Workload, case: Case, folder: Path) -> None:
        self.workload, self.case, self.folder = workload, case, folder
        make_reference(case, folder)
        loaded = load_reference(folder)
        assert loaded is not None
        self.reference: Reference = loaded

    def judge(self, evidence: Callable[[], Arrays]) -> Parity:
        with without_dropout(self.reference.without_dropout):
            return check_parity(evidence, self.folder, self.case)

    def eager(self, spoil: Callable[[TorchProgram], None] = lambda _: None, **changes: Any) -> Arrays:
        """What eager computes, after `spoil` has changed it. A spoilt program steps before as rungs do."""
        return self._evidence(TorchProgram(self.workload, self._changed(changes)), spoil)

    def rung(self, name: str) -> Arrays:
        return self._evidence(get_rung(name).prepare(self.workload, self._changed({"rung": name})), lambda _: None)

    def exact(self, numerics: Numerics, spoil: Callable[[TorchProgram], None]) -> Arrays:
        """What a spoilt eager computes in the precision of the reference."""
        return self._evidence(TorchProgram(self.workload, self.case, numerics), spoil)

    def _changed(self, changes: dict[str, Any]) -> Case:
        import msgspec

        changed = msgspec.structs.replace(self.case, **changes)
        pin_flags(changed)
        return changed

    def _evidence(self, program: Any, spoil: Callable[[Any], None]) -> Arrays:
        try:
            spoil(program)
            evidence: Arrays = program.evidence()
            return evidence
        finally:
            program.close()


@contextmanager
def judging(workload: Workload, case: Case) -> Iterator[Judge]:
    """A judge that knows a workload which is registered nowhere."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(worker_reference, "get_workload", lambda _: workload),
    ):
        yield Judge(workload, case, Path(folder))
