"""The small networks of a popular tutorial: a ResNet of nine blocks and a DenseNet, for images of 32x32."""

from typing import Any

from tare.workloads.kinds import SETTLED, Classifier
from tare.workloads.registry import workload

SOURCE = "written here after P. Lippe, UvA Deep Learning Tutorials 5 (2022), CIFAR-10"
SMOKE = {"batch": 4, "resolution": 32}
SIZES = {"resolution": 32, "classes": 10}


@workload(
    "phlippe_resnet", domain="vision", task="classification", source=SOURCE, batch=128, sizes=SIZES, smoke=SMOKE,
    layouts=("contiguous", "channels-last"),
)  # fmt: skip
class SmallResNet(Classifier):
    def build(self, classes: int, **_: int) -> Any:
        from tare.workloads.networks.cifar import ResNet

        return ResNet(classes, widths=(16, 32, 64), blocks=3)


@workload(
    "phlippe_densenet", domain="vision", task="classification", source=SOURCE, differs=SETTLED, batch=128,
    sizes=SIZES, smoke=SMOKE, layouts=("contiguous", "channels-last"),
)  # fmt: skip
class SmallDenseNet(Classifier):
    def build(self, classes: int, **_: int) -> Any:
        import torch

        from tare.workloads.networks.cifar import DenseNet
        from tare.workloads.networks.still import settled

        return settled(DenseNet(classes, layers=(6, 6, 6, 6), bottleneck=2, growth=16), torch.randn(4, 3, 32, 32))
