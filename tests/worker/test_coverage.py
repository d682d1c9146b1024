"""Coverage of a program that is small enough to say what it calls."""

from typing import Any

import pytest
import torch
from torch import nn

from tare.cases.case import Case
from tare.protocol.jobs import CoverJob, RegistryJob
from tare.worker.coverage import cover, registries
from tare.workloads import Batch, Workload, registry


class Remembering(nn.Module):  # type: ignore[misc]
    """Makes something in its first step that later ones use."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.kept: Any = None

    def forward(self, x: Any) -> Any:
        if self.kept is None:
            self.kept = torch.erfinv(x / 10).detach()
        return torch.relu(x * self.weight + self.kept)


class Definition:
    def build(self) -> Any:
        return Remembering()

    def inputs(self, batch: int) -> Batch:
        return Batch((torch.randn(batch, 3),), torch.zeros(batch, 3))

    def loss(self, output: Any, target: Any) -> Any:
        return nn.functional.mse_loss(output, target)


def covered(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> Any:
    made = Workload(name="planted_memory", definition=Definition(), domain="other", task="t", source="s", batch=2)
    monkeypatch.setitem(registry._workloads, "planted_memory", made)
    case = Case(workload="planted_memory", rung="eager", batch=2, sizes={}, **fields)
    return cover(CoverJob(case=case), print)


def test_inference_is_covered_to_the_last_function(monkeypatch: pytest.MonkeyPatch) -> None:
    found = covered(monkeypatch)
    wanted = {"torch.Tensor.div", "torch.erfinv", "torch.Tensor.detach", "torch.Tensor.mul", "torch.Tensor.add"}
    assert set(found.api) == {*wanted, "torch.relu"}
    assert set(found.aten) == {f"aten::{name}" for name in ("div", "erfinv", "detach", "mul", "add", "relu")}
    # erfinv and detach are no core operators.
    assert set(found.core) == {f"aten::{name}" for name in ("div", "mul", "add", "relu")}
    assert found.others == []


def test_training_covers_the_loss_the_way_back_and_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    found = covered(monkeypatch, mode="train", optimizer="sgd")
    assert {"torch.erfinv", "torch.nn.functional.mse_loss", "torch.Tensor.backward"} <= set(found.api)
    assert {"aten::mse_loss", "aten::mse_loss_backward", "aten::threshold_backward"} <= set(found.aten)
    known = registries(RegistryJob(), print)
    assert set(found.api) <= set(known.api)
    assert set(found.core) <= set(known.core) < set(known.aten)
