"""Deeper residual networks. Their depth is a size, so that smoke runs can reduce it."""

from dataclasses import dataclass
from typing import Any

from tare.workloads.base import Size
from tare.workloads.kinds import Classifier
from tare.workloads.registry import workload

# name -> (depth, groups, width of a group, paper)
MODELS = {
    "resnet152": (152, 1, 64, "He et al., Deep Residual Learning (2015)"),
    "resnext50_32x4d": (50, 32, 4, "Xie et al., Aggregated Residual Transformations (2017)"),
}


@dataclass(frozen=True)
class DeepResidual(Classifier):
    groups: int
    width: int

    def build(self, depth: int, classes: int, **_: int) -> Any:
        from tare.workloads.networks.residual import bottlenecks

        return bottlenecks(depth, num_classes=classes, groups=self.groups, width_per_group=self.width)


for _name, (_depth, _groups, _width, _paper) in MODELS.items():
    workload(
        _name,
        domain="vision",
        task="classification",
        source=f"torchvision.models.{_name}; {_paper}",
        batch=32,
        sizes={"depth": Size(_depth, choices=(14, _depth)), "resolution": 224, "classes": 1000},
        smoke={"batch": 2, "depth": 14, "resolution": 64, "classes": 10},
        requires=("torchvision",),
        layouts=("contiguous", "channels-last"),
    )(DeepResidual(_groups, _width))
