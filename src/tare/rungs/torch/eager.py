"""Eager PyTorch: every operator dispatched from Python, one after the other."""

from tare.cases.case import Case
from tare.rungs.base import Program, Rung
from tare.rungs.registry import rung
from tare.workloads.base import Workload


@rung
class Eager(Rung):
    name = "eager"
    summary = "PyTorch as it comes"
    countable = True
    whole_steps = True

    def prepare(self, workload: Workload, case: Case) -> Program:
        from tare.rungs.torch.whole_step import eager_program

        return eager_program(workload, case)
