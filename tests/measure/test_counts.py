"""Counting what a step does: known steps have known counts."""

import pytest
import torch

from tare.measure.interception import count_step

CPU = torch.device("cpu")


@pytest.mark.parametrize("inference", [False, True], ids=["plain", "inference mode"])
def test_operators_copies_and_synchronisations_are_counted(inference: bool) -> None:
    def step() -> float:
        y = (x + 1).clone()
        return float(y.sum().item())

    with torch.inference_mode(inference):
        x = torch.randn(8, 4)
        assert count_step(step, CPU).figures == {"operators": 4, "synchronisations": 1, "bytes_copied": 8 * 4 * 4}


@pytest.mark.parametrize("inference", [False, True], ids=["plain", "inference mode"])
def test_a_conversion_is_a_copy_of_what_it_makes(inference: bool) -> None:
    with torch.inference_mode(inference):
        x = torch.randn(10, 2)
        assert count_step(lambda: x.to(torch.float64), CPU).figures["bytes_copied"] == 160
        assert count_step(lambda: x.to(torch.float32), CPU).figures["bytes_copied"] == 0
        assert count_step(lambda: x.t().contiguous(), CPU).figures["bytes_copied"] == 80
        assert count_step(lambda: x.contiguous(), CPU).figures["bytes_copied"] == 0


def test_the_backward_pass_is_counted_as_well() -> None:
    model = torch.nn.Linear(4, 4)
    x = torch.randn(2, 4)
    forward = count_step(lambda: model(x).sum(), CPU).figures["operators"]
    assert count_step(lambda: model(x).sum().backward(), CPU).figures["operators"] > forward


def test_the_same_step_has_the_same_counts() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    x = torch.randn(3, 4)
    first = count_step(lambda: model(x), CPU)
    assert first == count_step(lambda: model(x), CPU)
    assert first.figures["operators"] > 0


def test_a_step_that_raises_does_not_leave_the_counting_on() -> None:
    def step() -> None:
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        count_step(step, CPU)
    assert count_step(lambda: torch.ones(1) + 1, CPU).figures["operators"] == 2


def test_operators_are_counted_by_name() -> None:
    x = torch.randn(3)
    assert count_step(lambda: (x + 1 + 2).clone(), CPU).operators == {"aten::add": 2, "aten::clone": 1}
