"""What `torch.compile` counts of a program: graph breaks, and on a CPU the kernels that Inductor made of it."""

import pytest
import torch

from tare.cases.case import Case
from tare.rungs import get_rung
from tare.workloads.base import Batch, Workload


class Pointwise(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, breaks: int) -> None:
        super().__init__()
        self.breaks = breaks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.breaks > 0:
            x = x.sin() + 1
            torch._dynamo.graph_break()
        if self.breaks > 1:
            x = x.tan() + 1
            torch._dynamo.graph_break()
        return x.cos() * 2


class Definition:
    def __init__(self, breaks: int) -> None:
        self.breaks = breaks

    def build(self) -> torch.nn.Module:
        return Pointwise(self.breaks)

    def inputs(self, batch: int) -> Batch:
        return Batch((torch.randn(batch, 8),))


@pytest.mark.full
@pytest.mark.parametrize("breaks", [0, 2])
def test_graph_breaks_and_kernels_are_known(breaks: int) -> None:
    """What lies between two breaks is fused into one kernel, and nothing is fused across a break."""
    from torch._dynamo.utils import counters
    from torch._inductor import metrics

    torch.compiler.reset()
    counters.clear()
    metrics.reset()
    made = Workload(
        name="pointwise", definition=Definition(breaks), domain="other", task="none", source="tests", batch=4
    )
    case = Case(workload="pointwise", rung="compile", batch=4)
    rung = get_rung("compile")
    program = rung.prepare(made, case)
    program.step()
    program.close()
    assert rung.counts(case) == {"graph_breaks": breaks, "kernels": breaks + 1}


def test_other_rungs_know_nothing_without_running() -> None:
    assert get_rung("eager").counts(Case(workload="mlp", rung="eager", batch=4)) == {}
