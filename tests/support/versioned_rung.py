"""A rung of a framework that only environments have. Its results depend on the framework's version."""

from importlib.util import find_spec
from typing import Any

from tare.cases.case import Case
from tare.protocol.messages import Missing
from tare.rungs.base import Program, Rung
from tare.rungs.registry import rung
from tare.workloads.base import Workload

NAME = "planted_framework"


@rung
class Versioned(Rung):
    name = "versioned"
    summary = "a planted framework"
    distribution = "planted-framework"
    countable = True

    def available(self, device_type: str) -> Missing | None:  # noqa: ARG002
        return None if find_spec(NAME) else Missing("the planted framework is not installed", "tare env create it")

    def prepare(self, workload: Workload, case: Case) -> Program:
        import planted_framework  # type: ignore[import-not-found]

        from tare.rungs.torch.program import TorchProgram

        program = TorchProgram(workload, case)
        model, factor = program.model, planted_framework.FACTOR
        # A later version may use more operators for the same.
        extra = getattr(planted_framework, "EXTRA", 0)

        def forward(*args: Any) -> Any:
            result = model(*args) * factor
            for _ in range(extra):
                result = result * 1.0
            return result

        program.forward = forward
        program.step = program.plain_step()
        return program
