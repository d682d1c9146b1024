"""U-Net (Ronneberger et al., 2015; in three dimensions Cicek et al., 2016)."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

CONVOLUTION = {2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
POOL = {2: nn.MaxPool2d, 3: nn.MaxPool3d}
# Volumes come in batches of one or two, whose statistics are poor: MLPerf uses instance norm for them.
NORM = {2: nn.BatchNorm2d, 3: lambda width: nn.InstanceNorm3d(width, affine=True)}


def double(into: int, out: int, dimensions: int) -> nn.Sequential:
    layers: list[Any] = []
    for width in (into, out):
        layers.append(CONVOLUTION[dimensions](width, out, 3, padding=1, bias=False))
        layers += [NORM[dimensions](out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, channels: int, classes: int, widths: Sequence[int], dimensions: int) -> None:
        super().__init__()
        self.first = double(channels, widths[0], dimensions)
        pairs = list(itertools.pairwise(widths))
        self.down = nn.ModuleList(
            nn.Sequential(POOL[dimensions](2), double(small, large, dimensions)) for small, large in pairs
        )
        self.grow = nn.ModuleList(TRANSPOSED[dimensions](large, small, 2, 2) for small, large in reversed(pairs))
        self.merge = nn.ModuleList(double(2 * small, small, dimensions) for small, _ in reversed(pairs))
        self.last = CONVOLUTION[dimensions](widths[0], classes, 1)

    def forward(self, x: Any) -> Any:
        skips = [self.first(x)]
        for down in self.down:
            skips.append(down(skips[-1]))
        x = skips.pop()
        for grow, merge in zip(self.grow, self.merge, strict=True):
            x = merge(torch.cat([skips.pop(), grow(x)], dim=1))
        return self.last(x)
