"""DBNet (Liao et al., 2019) on ResNet-50 and CRNN (Shi et al., 2015) on VGG-16."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torchvision.models import vgg16_bn
from torchvision.models.feature_extraction import create_feature_extractor

from tare.workloads.networks.residual import bottlenecks

SHARPNESS = 50.0


def head(width: int) -> nn.Sequential:
    quarter = width // 4
    return nn.Sequential(
        nn.Conv2d(width, quarter, 3, padding=1, bias=False),
        nn.BatchNorm2d(quarter),
        nn.ReLU(),
        nn.ConvTranspose2d(quarter, quarter, 2, 2, bias=False),
        nn.BatchNorm2d(quarter),
        nn.ReLU(),
        nn.ConvTranspose2d(quarter, 1, 2, 2),
    )


class DbNet(nn.Module):
    """A feature pyramid on ResNet-50. Returns maps of text, of thresholds, and their differentiable comparison."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        stages = {f"layer{i}": str(i) for i in range(1, 5)}
        self.backbone = create_feature_extractor(bottlenecks(depth), stages)
        self.inside = nn.ModuleList(nn.Conv2d(c, width, 1, bias=False) for c in (256, 512, 1024, 2048))
        self.out = nn.ModuleList(nn.Conv2d(width, width // 4, 3, padding=1, bias=False) for _ in range(4))
        self.text, self.threshold = head(width), head(width)

    def forward(self, x: Any) -> Any:
        maps = [layer(m) for layer, m in zip(self.inside, self.backbone(x).values(), strict=True)]
        for i in (2, 1, 0):
            maps[i] = maps[i] + functional.interpolate(maps[i + 1], scale_factor=2.0)
        upsampled = [
            functional.interpolate(layer(m), scale_factor=float(1 << i))
            for i, (layer, m) in enumerate(zip(self.out, maps, strict=True))
        ]
        features = torch.cat(upsampled, dim=1)
        text, threshold = self.text(features), torch.sigmoid(self.threshold(features))
        # Equation 1 of the paper: differentiable binarisation.
        return text, threshold, torch.sigmoid(SHARPNESS * (torch.sigmoid(text) - threshold))


class Crnn(nn.Module):
    """VGG-16 whose later pools keep the width, two bidirectional LSTM layers, a score per character and column."""

    def __init__(self, vocabulary: int, hidden: int) -> None:
        super().__init__()
        layers = list(vgg16_bn(weights=None).features)
        pools = [i for i, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
        for i in pools[2:]:
            layers[i] = nn.MaxPool2d((2, 1), (2, 1))
        self.features = nn.Sequential(*layers)
        self.recurrent = nn.LSTM(512, hidden, 2, batch_first=True, bidirectional=True)
        self.scores = nn.Linear(2 * hidden, vocabulary + 1)

    def forward(self, x: Any) -> Any:
        columns = self.features(x).flatten(1, 2).transpose(1, 2)
        return self.scores(self.recurrent(columns)[0])
