"""Counting: operations and bytes of steps whose answers are known."""

import pytest
import torch

from tare.measure.flops import FORMULAS
from tare.measure.work import count_work, is_heavy
from tare.records.work import Work
from tare.worker.inspection import _count


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


@pytest.mark.parametrize("trains", [False, True])
def test_a_recurrent_layer_is_counted_as_show_workload_counts_it(trains: bool) -> None:
    layer, batch = torch.nn.LSTM(8, 16), torch.randn(3, 2, 8)

    def step() -> None:
        with torch.set_grad_enabled(trains):
            out = layer(batch)[0]
            if trains:
                out.sum().backward()

    work = count_work(step)
    forward = 2 * 3 * 2 * 4 * 16 * (8 + 16)
    assert (work.flops, work.uncounted) == (3 * forward if trains else forward, [])
    assert _count(step).total == work.flops


def test_cudnn_s_recurrent_layer_by_its_shapes() -> None:
    """Two layers of 16, from 8: the matrices of each, and not the biases; packed steps are one dimension."""
    shapes = [(64, 8), (64, 16), (64,), (64,), (64, 16), (64, 16), (64,), (64,)]
    weights = [torch.empty(shape, device="meta") for shape in shapes]
    formulas = [FORMULAS[getattr(torch.ops.aten, f"_cudnn_rnn{way}")] for way in ("", "_backward")]
    for given in ((3, 2, 8), (6, 8)):
        x = torch.empty(given, device="meta")
        counted = [formula(x, weights, 4, out_val=None) for formula in formulas]
        assert counted[0] == 2 * 6 * 64 * (8 + 3 * 16)
        assert counted[1] == 2 * counted[0]


def test_what_is_not_counted_is_listed() -> None:
    matrix = torch.randn(8, 8)
    work = count_work(lambda: torch.linalg.svd(matrix))
    assert work.uncounted == ["aten::_linalg_svd"]
    assert work.flops == 0


@pytest.mark.parametrize(
    ("name", "heavy"),
    [
        ("aten::_thnn_fused_gru_cell", True),
        ("mkldnn::_convolution_pointwise", True),
        ("quantized::conv2d", True),
        ("baddbmm", True),
        ("aten::_linalg_svd", True),
        ("aten::linalg_vector_norm", False),
        ("aten::upsample_bilinear2d", False),
        ("aten::native_batch_norm", False),
        ("aten::add", False),
    ],
)
def test_what_makes_a_count_a_lower_bound(name: str, heavy: bool) -> None:
    assert is_heavy(name) is heavy
