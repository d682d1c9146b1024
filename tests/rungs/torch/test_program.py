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


def test_a_disturbed_batch_is_new_whatever_a_result_is_kept_by(program: TorchProgram) -> None:
    """By its scale, its signs, or the place of its largest number."""
    (values,) = program.held.args
    for attempt in range(3):
        before = values.clone()
        assert program.disturb(attempt)
        assert not torch.equal(values, before)
        assert not torch.equal(values.sign(), before.sign())
        assert int(values.argmax()) != int(before.argmax())
        # No number leaves the interval between zero and where it was.
        assert float(values.abs().max()) < float(before.abs().max())


def test_a_result_of_another_class_is_copied_to_be_read(program: TorchProgram) -> None:
    class Other(torch.Tensor):  # type: ignore[misc]
        pass

    plain = torch.ones(3)
    assert program.finished([plain]) == [plain]
    (copy,) = program.finished([plain.as_subclass(Other)])
    assert type(copy) is torch.Tensor
    assert torch.equal(copy, plain)
