"""torchvision's one-stage detectors with random weights that find something."""

from typing import Any

import torch
from torch import nn
from torchvision.models import detection

from tare.workloads.networks.rcnn import ByPosition, steady

# Detectors start with a prior of one in a hundred for every class: nothing would pass the threshold.
PRIOR = -3.0
SPREAD = 10.0


def one_stage(name: str, resolution: int, classes: int) -> Any:
    options = {} if name.startswith("ssd") else {"min_size": resolution, "max_size": resolution}
    model = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=classes, **options)
    head = model.head.classification_head
    scores = [head.cls_logits] if hasattr(head, "cls_logits") else list(head.module_list)
    with torch.no_grad():
        for layer in scores:
            layer.weight.mul_(SPREAD)
            if not name.startswith("ssd"):
                nn.init.constant_(layer.bias, PRIOR)
    return steady(ByPosition(model, masks=False))
