"""Momentum contrast: an encoder, a copy that follows it slowly, and a queue of the copy's earlier outputs."""

from typing import Any

from tare.workloads.base import Batch, Size
from tare.workloads.registry import workload


@workload(
    "moco",
    domain="other",
    task="self-supervised learning",
    source="written here on torchvision's ResNet-50; He et al., Momentum Contrast (2019)",
    differs="one device, so there is no shuffled batch norm; both views are part of the batch",
    batch=32,
    sizes={"resolution": 224, "width": 128, "queue": 65536, "depth": Size(50, choices=(14, 50))},
    smoke={"batch": 2, "resolution": 64, "width": 16, "queue": 64, "depth": 14},
    requires=("torchvision",),
    unsupported={
        "compile/train": "the backward pass needs a copy of the queue, but Inductor reads the queue itself, "
        "which the step has overwritten by then: its gradients are wrong (torch 2.10)",
    },
)
class Moco:
    def build(self, width: int, queue: int, depth: int, **_: int) -> Any:
        from tare.workloads.networks.moco import Moco

        return Moco(width, queue, depth)

    def inputs(self, batch: int, resolution: int, **_: int) -> Batch:
        import torch

        views = torch.randn(2, batch, 3, resolution, resolution)
        return Batch((views[0], views[1]), torch.zeros(batch, dtype=torch.long))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.cross_entropy(output, target)
