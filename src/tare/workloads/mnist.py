"""The network of the PyTorch-and-CUDA report (docs/sources.md): two convolutions, two linear layers, ReLU, NLL."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.registry import workload


@workload(
    "mnist_cnn",
    domain="vision",
    task="classification",
    source="G. Koehler, MNIST Handwritten Digit Recognition in PyTorch (2020), as in the PyTorch-and-CUDA report",
    differs="no dropout, so that training can be compared between rungs step by step",
    batch=64,
    sizes={"classes": 10},
    smoke={"batch": 8},
    layouts=("contiguous", "channels-last"),
    momentum=0.5,
)
class MnistNetwork:
    def build(self, classes: int) -> Any:
        from torch import nn

        return nn.Sequential(
            nn.Conv2d(1, 10, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(10, 20, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(320, 50),
            nn.ReLU(),
            nn.Linear(50, classes),
            nn.LogSoftmax(dim=1),
        )

    def inputs(self, batch: int, classes: int) -> Batch:
        import torch

        return Batch((torch.randn(batch, 1, 28, 28),), torch.randint(classes, (batch,)))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.nll_loss(output, target)
