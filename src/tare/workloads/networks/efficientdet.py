"""EfficientDet (Tan et al., 2019): a BiFPN, and two heads that all levels share."""

from typing import Any

import timm
import torch
from torch import nn
from torch.nn import functional


def separable(into: int, out: int, bias: bool = False) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(into, into, 3, 1, 1, groups=into, bias=False), nn.Conv2d(into, out, 1, bias=bias)
    )


class Fuse(nn.Module):
    """Adds maps with learned weights that are not negative and sum to one (the paper's fast fusion)."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(inputs))
        self.body = nn.Sequential(
            nn.SiLU(), separable(width, width), nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)
        )

    def forward(self, *maps: Any) -> Any:
        weights = torch.relu(self.weights)
        weights = weights / (weights.sum() + 1e-4)
        total = weights[0] * maps[0]
        for i in range(1, len(maps)):
            total = total + weights[i] * maps[i]
        return self.body(total)


class BiFpn(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(Fuse(2, width) for _ in range(4))
        self.up = nn.ModuleList([*(Fuse(3, width) for _ in range(3)), Fuse(2, width)])

    def forward(self, maps: list[Any]) -> list[Any]:
        middle = list(maps)
        for i in (3, 2, 1, 0):
            middle[i] = self.down[i](maps[i], functional.interpolate(middle[i + 1], scale_factor=2.0))
        out = [middle[0]]
        for i in range(1, 5):
            below = functional.max_pool2d(out[-1], 3, 2, 1)
            parts = (maps[i], middle[i], below) if i < 4 else (maps[i], below)
            out.append(self.up[i - 1](*parts))
        return out


class Head(nn.Module):
    """The same convolutions on every level, with separate batch norms for each level."""

    def __init__(self, width: int, out: int, depth: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(separable(width, width, bias=True) for _ in range(depth))
        self.norms = nn.ModuleList(
            nn.ModuleList(nn.BatchNorm2d(width, eps=1e-3, momentum=0.01) for _ in range(depth)) for _ in range(5)
        )
        self.last = separable(width, 9 * out, bias=True)
        self.out = out

    def forward(self, maps: list[Any]) -> Any:
        outputs = []
        for x, norms in zip(maps, self.norms, strict=True):
            for layer, norm in zip(self.layers, norms, strict=True):
                x = functional.silu(norm(layer(x)))
            x = self.last(x)
            outputs.append(x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.out))
        return torch.cat(outputs, dim=1)


class EfficientDet(nn.Module):
    def __init__(self, classes: int, width: int, repeats: int) -> None:
        super().__init__()
        self.backbone = timm.create_model(
            "efficientnet_b0", pretrained=False, features_only=True, out_indices=(2, 3, 4), drop_path_rate=0.0
        )
        channels = self.backbone.feature_info.channels()
        self.inside = nn.ModuleList(
            nn.Sequential(nn.Conv2d(c, width, 1), nn.BatchNorm2d(width)) for c in (*channels, channels[-1])
        )
        self.pyramid = nn.ModuleList(BiFpn(width) for _ in range(repeats))
        self.classes, self.boxes = Head(width, classes), Head(width, 4)
        nn.init.constant_(self.classes.last[1].bias, -4.6)  # the focal loss's prior: 1 % of anchors

    def forward(self, x: Any) -> Any:
        features = self.backbone(x)
        maps = [layer(m) for layer, m in zip(self.inside, (*features, features[-1]), strict=True)]
        maps[3] = functional.max_pool2d(maps[3], 3, 2, 1)
        maps.append(functional.max_pool2d(maps[3], 3, 2, 1))
        for fuse in self.pyramid:
            maps = fuse(maps)
        return self.classes(maps), self.boxes(maps)
