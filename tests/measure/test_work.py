"""Counting: operations and bytes of steps whose answers are known."""

import pytest
import torch

from tare.measure.work import count_work
from tare.records.work import Work


def traffic(work: Work) -> int:
    """Bytes if every operator reads its inputs and writes its outputs."""
    return sum(one.count * one.bytes for one in work.operators)


@pytest.mark.parametrize("inference", [True, False])
def test_a_linear_layer(inference: bool) -> None:
    layer, batch = torch.nn.Linear(32, 64), torch.randn(8, 32)
    with torch.inference_mode(inference):
        work = count_work(lambda: layer(batch))
    assert work.flops == 2 * 8 * 32 * 64
    assert work.read == 4 * (8 * 32 + 32 * 64 + 64)
    assert work.written == 4 * 8 * 64
    assert traffic(work) == work.read + work.written
    assert work.uncounted == []


def test_a_training_step_reads_and_writes_weights_and_momentum_once() -> None:
    layer, batch = torch.nn.Linear(16, 4, bias=False), torch.randn(8, 16)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = layer(batch).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step()
    work = count_work(step)
    weights = 4 * 16 * 4
    # Forward, and the gradient of the weights; the input needs none.
    assert work.flops == 2 * 2 * 8 * 16 * 4
    assert work.read == 4 * 8 * 16 + 2 * weights
    assert work.written == 2 * weights + 4


def test_views_are_free_and_a_broadcast_counts_once() -> None:
    row, square = torch.randn(1, 64), torch.randn(64, 64)
    work = count_work(lambda: square.t() + row.expand(64, 64))
    assert traffic(work) == 4 * (64 * 64 + 64 + 64 * 64)


def test_what_is_not_counted_is_listed() -> None:
    layer, batch = torch.nn.LSTM(8, 8), torch.randn(3, 2, 8)
    with torch.inference_mode():
        work = count_work(lambda: layer(batch)[0])
    assert any("rnn" in name or "lstm" in name for name in work.uncounted) or work.flops >= 2 * 3 * 2 * 4 * 8 * 16
