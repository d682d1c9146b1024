"""A multilayer perceptron, small enough for tests."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.registry import workload


@workload(
    "mlp",
    domain="other",
    task="classification",
    source="written here",
    batch=8,
    sizes={"width": 128, "depth": 2, "features": 64, "classes": 10},
)
class Perceptron:
    def build(self, width: int, depth: int, features: int, classes: int) -> Any:
        from torch import nn

        layers: list[nn.Module] = []
        for i in range(depth):
            layers += [nn.Linear(features if i == 0 else width, width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, classes))

    def inputs(self, batch: int, features: int, classes: int, **_: int) -> Batch:
        import torch

        return Batch((torch.randn(batch, features),), torch.randint(classes, (batch,)))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.cross_entropy(output, target)
