"""torchvision's one-stage detectors with random weights under which boxes survive."""

from typing import Any

from torch import nn
from torchvision.models import detection

from tare.workloads.networks.rcnn import ByPosition, steady

# torchvision's initial scores are nearly equal and below the threshold. With unit variance around this value a few
# percent pass, as in a trained network.
PRIOR = -3.5


def one_stage(name: str, resolution: int, classes: int) -> Any:
    model = getattr(detection, name)(
        weights=None, weights_backbone=None, num_classes=classes, min_size=resolution, max_size=resolution
    )
    head = model.head.classification_head
    for layer in head.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)
    nn.init.normal_(head.cls_logits.weight, std=(head.cls_logits.in_channels * 9) ** -0.5)
    nn.init.constant_(head.cls_logits.bias, PRIOR)
    return steady(ByPosition(model, masks=False))
