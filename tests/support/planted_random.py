"""Workloads that draw random numbers, as a plug-in: `planted_dropout`, `planted_sampling`, `planted_reseeding`."""

from typing import Any

from tare.workloads import workload
from tare.workloads.base import Batch

WIDTH = 16
METADATA: dict[str, Any] = {"domain": "other", "task": "", "source": "", "batch": 4}


class Regression:
    def inputs(self, batch: int) -> Batch:
        import torch

        return Batch((torch.randn(batch, WIDTH),), torch.randn(batch, 3))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.mse_loss(output, target)


@workload("planted_dropout", **METADATA)
class Dropping(Regression):
    def build(self) -> Any:
        from torch import nn

        return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Dropout(0.5), nn.Linear(WIDTH, 3))


@workload("planted_sampling", **METADATA)
class Sampling(Regression):
    def build(self) -> Any:
        import torch
        from torch import nn

        class Noise(nn.Module):  # type: ignore[misc]
            def forward(self, x: Any) -> Any:
                return x + torch.rand_like(x)

        return nn.Sequential(nn.Linear(WIDTH, WIDTH), Noise(), nn.Linear(WIDTH, 3))


@workload("planted_reseeding", **METADATA)
class Reseeding(Regression):
    def build(self) -> Any:
        import torch
        from torch import nn

        torch.seed()
        return nn.Linear(WIDTH, 3)
