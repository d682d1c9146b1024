"""The context switching network of Background Matting (Sengupta et al., 2020): an encoder for each kind of input,
blocks that combine each context with the image, and one decoder each for the matte and for the foreground."""

from typing import Any

import torch
from torch import nn


def convolution(into: int, out: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    pad: list[Any] = [nn.ReflectionPad2d(size // 2)] if stride == 1 else []
    layer = nn.Conv2d(into, out, size, stride, 0 if pad else size // 2, bias=False)
    return nn.Sequential(*pad, layer, nn.BatchNorm2d(out), nn.ReLU())


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            convolution(width, width),
            nn.ReflectionPad2d(1),
            nn.Conv2d(width, width, 3, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: Any) -> Any:
        return x + self.body(x)


def encoder(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        convolution(channels, width, 7),
        convolution(width, 2 * width, 3, 2),
        convolution(2 * width, 4 * width, 3, 2),
    )


def decoder(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
        convolution(4 * width, 2 * width),
        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
        convolution(2 * width, width),
        nn.ReflectionPad2d(3),
        nn.Conv2d(width, out, 7),
        nn.Tanh(),
    )


class ContextSwitching(nn.Module):
    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        deep = 4 * width
        self.image = encoder(3, width)
        self.contexts = nn.ModuleList(encoder(channels, width) for channels in (3, 1, 4))
        self.switches = nn.ModuleList(convolution(2 * deep, width, 1) for _ in range(3))
        self.combine = convolution(deep + 3 * width, deep, 1)
        self.shared = nn.Sequential(*(Residual(deep) for _ in range(blocks)))
        self.for_matte = nn.Sequential(*(Residual(deep) for _ in range(max(blocks // 2, 1))))
        self.for_colour = nn.Sequential(*(Residual(deep) for _ in range(max(blocks // 2, 1))))
        self.matte = decoder(width, 1)
        self.colour = decoder(width, 3)

    def forward(self, image: Any, background: Any, segmentation: Any, motion: Any) -> Any:
        features = self.image(image)
        parts = [features]
        for encode, switch, context in zip(
            self.contexts, self.switches, (background, segmentation, motion), strict=True
        ):
            parts.append(switch(torch.cat([features, encode(context)], dim=1)))
        shared = self.shared(self.combine(torch.cat(parts, dim=1)))
        matte = (self.matte(self.for_matte(shared)) + 1) / 2
        return matte, self.colour(self.for_colour(shared))
