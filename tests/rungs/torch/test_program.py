"""What every torch program shares: looking for numbers that are none, in whatever a model returns."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tare.cases.case import Case
from tare.rungs.torch.program import TorchProgram
from tare.workloads import get_workload

NAN = float("nan")
SIZES = {"width": 16, "depth": 1, "features": 8, "classes": 3}


@pytest.fixture
def program() -> Iterator[TorchProgram]:
    program = TorchProgram(get_workload("mlp"), Case(workload="mlp", rung="eager", batch=4, sizes=SIZES))
    yield program
    program.close()


@pytest.mark.parametrize(
    ("values", "bad"),
    [
        (torch.tensor([1.0, NAN]), True),
        (torch.tensor([1.0, NAN], dtype=torch.float64), True),
        (torch.tensor([1.0, NAN], dtype=torch.bfloat16), True),
        (torch.tensor([complex(0, NAN)]), True),
        (torch.tensor(NAN), True),
        (torch.tensor([1.0, float("-inf")]), False),  # a mask holds infinities
        (torch.tensor([1, 2]), False),
        (torch.tensor([True]), False),
        (torch.zeros(0), False),
    ],
)
def test_has_nan(program: TorchProgram, values: Any, bad: bool) -> None:
    assert program.has_nan(values) is bad
    assert program.has_nan({"first": torch.ones(3), "second": [values, "no tensor"]}) is bad


def test_nothing_has_no_nan(program: TorchProgram) -> None:
    assert not program.has_nan(())
