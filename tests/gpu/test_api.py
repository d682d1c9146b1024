"""The Python API on a CUDA device: it is found, waited for, and its memory is counted."""

import pytest
import torch

import tare

pytestmark = pytest.mark.gpu


def make_weights(size: int = 2048) -> torch.Tensor:
    return torch.randn(size, size, device="cuda")


def test_a_step_on_the_device_is_waited_for() -> None:
    weights = make_weights()
    result = tare.measure(torch.mm, weights, weights, budget=1.0)
    assert result.device == "cuda:0"
    assert result.device_memory is not None
    # Two operands of 16 MiB are older than the step; its result is another one.
    assert (result.device_memory.allocated_peak or 0) >= 32 * 2**20
    series = result.round.find("pipelined")
    assert series is not None
    assert series.device_ns is not None
    # 17.2 GFLOP take at least 17 µs on anything that exists; only launching them takes less.
    assert result.gross.median > 17e-6
    assert not any("too short" in note for note in result.notes)


def test_a_device_that_is_not_waited_for_is_a_note() -> None:
    weights = make_weights()
    result = tare.measure(torch.mm, weights, weights, budget=0.5, device="cpu")
    assert any("these times are too short" in note for note in result.notes)


def test_the_regions_of_a_step_have_their_kernels(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    weights = make_weights().requires_grad_()

    def train() -> None:
        with tare.stopwatch("forward"):
            loss = (weights @ weights).sum()
        with tare.stopwatch("backward"):
            loss.backward()

    explained = tare.explain(train, budget=0.5)
    regions = {region.name: region for region in explained.regions}
    # The backward pass has two products, the forward pass one.
    assert 0 < regions["forward"].device < regions["backward"].device
    assert sum(explained.breakdown.values()) == pytest.approx(1)


def test_a_model_on_the_device_is_carried_to_fresh_processes(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()).cuda()
    ladder = tare.ladder(model, torch.randn(32, 256, device="cuda"), rungs=["eager", "cudagraph"], quick=True)
    assert [(rung.name, rung.parity) for rung in ladder] == [("eager", "same"), ("cudagraph", "same")]
    assert ladder.records[0].case.device == "cuda"
