"""Large weights are filled quickly, and are random enough."""

import pytest
import torch

from tare.workloads.networks import fill
from tare.workloads.networks.fill import BLOCK, LARGE, LARGE_BEHIND_MANY, QuickRandom


def filled(rows: int, columns: int) -> torch.Tensor:
    torch.manual_seed(3)
    with QuickRandom():
        return torch.empty(rows, columns).normal_(1.0, 0.5)


def test_large_tensors_have_the_distribution_that_was_asked_for() -> None:
    weight = filled(4096, 2048)
    assert weight.numel() > 2 * BLOCK
    assert float(weight.mean()) == pytest.approx(1.0, abs=0.002)
    assert float(weight.std()) == pytest.approx(0.5, abs=0.002)


def test_the_same_seed_gives_the_same_and_no_rows_are_alike() -> None:
    weight = filled(4096, 2048)
    assert torch.equal(weight, filled(4096, 2048))
    assert len(torch.unique(weight[:, :8], dim=0)) == 4096


def test_two_tensors_begin_at_different_places() -> None:
    with QuickRandom():
        first, second = torch.empty(LARGE).uniform_(), torch.empty(LARGE).uniform_()
    assert not torch.equal(first, second)
    assert float((first * second).mean()) == pytest.approx(0.25, abs=0.002)


@pytest.mark.parametrize("length", [1000, LARGE - 1])
def test_small_tensors_are_as_without_it(length: int) -> None:
    torch.manual_seed(5)
    plain = torch.empty(length).normal_()
    torch.manual_seed(5)
    with QuickRandom():
        assert torch.equal(torch.empty(length).normal_(), plain)


def test_in_a_large_model_smaller_tensors_are_filled_quickly_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fill, "MANY", 3 * LARGE_BEHIND_MANY)
    with QuickRandom() as mode:
        tensors = [torch.empty(LARGE_BEHIND_MANY).normal_(0, 0.1) for _ in range(6)]
        torch.empty(LARGE_BEHIND_MANY - 1).normal_()
    assert mode._drawn == 4 * LARGE_BEHIND_MANY - 1
    for tensor in tensors:
        assert float(tensor.std()) == pytest.approx(0.1, rel=0.01)


def test_a_block_is_a_prime_so_that_no_row_length_divides_it() -> None:
    assert all(BLOCK % divisor for divisor in range(2, int(BLOCK**0.5) + 1))
