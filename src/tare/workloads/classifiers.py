"""Image classifiers of torchvision, with random weights."""

from dataclasses import dataclass
from typing import Any

from tare.workloads.kinds import SETTLED, Classifier
from tare.workloads.registry import workload

# name -> (batch, paper)
MODELS = {
    "alexnet": (128, "Krizhevsky, One weird trick (2014)"),
    "densenet121": (32, "Huang et al., Densely Connected Convolutional Networks (2017)"),
    "mnasnet1_0": (32, "Tan et al., MnasNet (2019)"),
    "mobilenet_v2": (32, "Sandler et al., MobileNetV2 (2018)"),
    "mobilenet_v3_large": (32, "Howard et al., Searching for MobileNetV3 (2019)"),
    "resnet18": (32, "He et al., Deep Residual Learning (2015)"),
    "shufflenet_v2_x1_0": (32, "Ma et al., ShuffleNet V2 (2018)"),
    "squeezenet1_1": (32, "Iandola et al., SqueezeNet (2016)"),
    "vgg16": (32, "Simonyan and Zisserman, Very Deep Convolutional Networks (2014)"),
}
# Most weights of these networks are in the classifier head, so smoke runs reduce the head's width.
HEADS = {"alexnet": 4096, "vgg16": 4096}
WITHOUT_NORM = ("alexnet", "squeezenet1_1", "vgg16")


@dataclass(frozen=True)
class Torchvision(Classifier):
    model: str

    def build(self, classes: int, width: int = 0, **_: int) -> Any:
        import torch
        from torch import nn
        from torchvision import models

        from tare.workloads.networks.still import settled, still

        model = getattr(models, self.model)(weights=None, num_classes=classes)
        if width not in (0, HEADS.get(self.model)):
            first = next(layer for layer in model.classifier if isinstance(layer, nn.Linear))
            model.classifier = nn.Sequential(
                nn.Linear(first.in_features, width), nn.ReLU(), nn.Linear(width, classes)
            )
        return settled(still(model), torch.randn(4, 3, 64, 64))


for _name, (_batch, _paper) in MODELS.items():
    workload(
        _name,
        domain="vision",
        task="classification",
        source=f"torchvision.models.{_name}; {_paper}",
        differs="no dropout or stochastic depth" + ("" if _name in WITHOUT_NORM else f"; {SETTLED}"),
        batch=_batch,
        sizes={"resolution": 224, "classes": 1000} | ({"width": HEADS[_name]} if _name in HEADS else {}),
        smoke={"batch": 2, "resolution": 64, "classes": 10} | ({"width": 64} if _name in HEADS else {}),
        requires=("torchvision",),
        layouts=("contiguous", "channels-last"),
    )(Torchvision(_name))
