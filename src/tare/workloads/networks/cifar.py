"""Small residual and dense networks for images of 32x32 (He et al., 2015; Huang et al., 2017)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


class ResidualBlock(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(into, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.short = nn.Conv2d(into, out, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, classes: int, widths: Sequence[int], blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()
        )
        layers, into = [], widths[0]
        for stage, width in enumerate(widths):
            for block in range(blocks):
                layers.append(ResidualBlock(into, width, 2 if stage and not block else 1))
                into = width
        self.blocks = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, classes))

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.stem(x)))


class DenseLayer(nn.Module):
    def __init__(self, into: int, bottleneck: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(into),
            nn.ReLU(),
            nn.Conv2d(into, bottleneck * growth, 1, bias=False),
            nn.BatchNorm2d(bottleneck * growth),
            nn.ReLU(),
            nn.Conv2d(bottleneck * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Any) -> Any:
        return torch.cat([self.body(x), x], dim=1)


class DenseNet(nn.Module):
    def __init__(self, classes: int, layers: Sequence[int], bottleneck: int, growth: int) -> None:
        super().__init__()
        width = growth * bottleneck
        parts: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1)]
        for i, count in enumerate(layers):
            for _ in range(count):
                parts.append(DenseLayer(width, bottleneck, growth))
                width += growth
            if i < len(layers) - 1:
                parts += [
                    nn.BatchNorm2d(width),
                    nn.ReLU(),
                    nn.Conv2d(width, width // 2, 1, bias=False),
                    nn.AvgPool2d(2),
                ]
                width //= 2
        parts += [
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(width, classes),
        ]
        self.network = nn.Sequential(*parts)

    def forward(self, x: Any) -> Any:
        return self.network(x)
