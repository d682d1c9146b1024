"""ResNet-50 at any resolution, for any number of classes, on colour or grey images."""

from typing import Any

from tare.workloads.base import Batch, Size
from tare.workloads.registry import workload

RESIDUAL_SCALE = 0.1


@workload(
    "resnet50",
    domain="vision",
    task="classification",
    source="torchvision.models.resnet50 (He et al., 2015; stride in the 3x3 convolution)",
    batch=1,
    sizes={"resolution": 224, "classes": 1000, "channels": Size(3, choices=(1, 3))},
    smoke={"batch": 4, "resolution": 64, "classes": 10},
    requires=("torchvision",),
    # He et al. use 0.1 for a batch of 256, which scales to a few thousandths for small batches. With 0.01, float32
    # and float64 diverge after sixteen steps.
    learning_rate=0.001,
    groups=("mlperf",),
    layouts=("contiguous", "channels-last"),
    differs=(
        "the last batch norm of each block starts at 0.1 instead of 1: with 1, rounding alone changes the first "
        "gradients by 2 % in float32 and by over 100 % in bfloat16, and the parity check of a rung would prove "
        "nothing"
    ),
)
class ResNet50:
    def build(self, classes: int, channels: int, **_: int) -> Any:
        from torch import nn
        from torchvision.models import resnet50

        model = resnet50(weights=None, num_classes=classes)
        for block in model.modules():
            if hasattr(block, "bn3"):
                nn.init.constant_(block.bn3.weight, RESIDUAL_SCALE)
        if channels != 3:
            model.conv1 = nn.Conv2d(channels, 64, kernel_size=7, stride=2, padding=3, bias=False)
        return model

    def inputs(self, batch: int, resolution: int, classes: int, channels: int) -> Batch:
        import torch

        return Batch((torch.randn(batch, channels, resolution, resolution),), torch.randint(classes, (batch,)))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.cross_entropy(output, target)
