"""YOLOv3 (Redmon and Farhadi, 2018): Darknet-53 and three detection heads with a pyramid between them."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

ANCHORS = (
    ((116, 90), (156, 198), (373, 326)),
    ((30, 61), (62, 45), (59, 119)),
    ((10, 13), (16, 30), (33, 23)),
)
STRIDES = (32, 16, 8)
OBJECTS = 8


def block(into: int, out: int, size: int, stride: int = 1) -> nn.Sequential:
    layer = nn.Conv2d(into, out, size, stride, size // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(out), nn.LeakyReLU(0.1))


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(block(width, width // 2, 1), block(width // 2, width, 3))

    def forward(self, x: Any) -> Any:
        return x + self.body(x)


def stage(into: int, count: int) -> nn.Sequential:
    return nn.Sequential(block(into, 2 * into, 3, 2), *(Residual(2 * into) for _ in range(count)))


def neck(into: int, width: int) -> nn.Sequential:
    sizes = ((into, width, 1), (width, 2 * width, 3), (2 * width, width, 1), (width, 2 * width, 3))
    return nn.Sequential(*(block(*size) for size in sizes), block(2 * width, width, 1))


class Yolo(nn.Module):
    def __init__(self, classes: int, width: int = 32, depth: int = 8) -> None:
        super().__init__()
        w = width
        self.stem = nn.Sequential(block(3, w, 3), stage(w, 1), stage(2 * w, min(2, depth)))
        self.stages = nn.ModuleList([stage(4 * w, depth), stage(8 * w, depth), stage(16 * w, (depth + 1) // 2)])
        self.necks = nn.ModuleList([neck(32 * w, 16 * w), neck(24 * w, 8 * w), neck(12 * w, 4 * w)])
        self.links = nn.ModuleList([block(16 * w, 8 * w, 1), block(8 * w, 4 * w, 1)])
        self.heads = nn.ModuleList(
            nn.Sequential(block(c, 2 * c, 3), nn.Conv2d(2 * c, 3 * (5 + classes), 1))
            for c in (16 * w, 8 * w, 4 * w)
        )
        for i, anchors in enumerate(ANCHORS):
            self.register_buffer(f"anchors{i}", torch.tensor(anchors, dtype=torch.float32))

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        maps = []
        for layers in self.stages:
            x = layers(x)
            maps.append(x)
        predictions = []
        for i, (layers, head) in enumerate(zip(self.necks, self.heads, strict=True)):
            x = layers(x)
            predictions.append(self._split(head(x)))
            if i < 2:
                x = functional.interpolate(self.links[i](x), scale_factor=2.0)
                x = torch.cat([x, maps[1 - i]], dim=1)
        if self.training:
            return predictions
        return torch.cat([self._boxes(raw, i) for i, raw in enumerate(predictions)], dim=1)

    def _split(self, raw: Any) -> Any:
        batch, _, height, width = raw.shape
        return raw.view(batch, 3, -1, height, width).permute(0, 1, 3, 4, 2)

    def _boxes(self, raw: Any, scale: int) -> Any:
        """Section 2.1: centre, size, objectness and classes of every anchor, in pixels."""
        batch, _, height, width, _ = raw.shape
        anchors = getattr(self, f"anchors{scale}").view(1, 3, 1, 1, 2)
        rows = torch.arange(height, device=raw.device, dtype=raw.dtype).view(-1, 1).expand(height, width)
        columns = torch.arange(width, device=raw.device, dtype=raw.dtype).view(1, -1).expand(height, width)
        centre = (torch.sigmoid(raw[..., :2]) + torch.stack([columns, rows], dim=-1)) * STRIDES[scale]
        boxes = torch.cat([centre, torch.exp(raw[..., 2:4]) * anchors, torch.sigmoid(raw[..., 4:])], dim=-1)
        return boxes.reshape(batch, -1, boxes.shape[-1])


def targets(batch: int, resolution: int, classes: int) -> Any:
    """The objects of a random batch for each scale: index (image, anchor, row, column), centre, size, class."""
    objects = []
    for stride in STRIDES:
        cells = resolution // stride
        count = batch * OBJECTS
        index = torch.stack(
            [torch.arange(batch).repeat_interleave(OBJECTS), torch.randint(3, (count,)),
             torch.randint(cells, (count,)), torch.randint(cells, (count,))]
        )  # fmt: skip
        objects.append(
            (index, torch.rand(count, 2), torch.randn(count, 2) * 0.5, torch.randint(classes, (count,)))
        )
    return objects


def yolo_loss(output: Any, expected: Any) -> Any:
    """Squared error of boxes, binary cross entropy of objectness and classes (section 2)."""
    total = 0.0
    for raw, (index, centre, size, label) in zip(output, expected, strict=True):
        predicted = raw[index[0], index[1], index[2], index[3]]
        objectness = torch.zeros_like(raw[..., 4])
        objectness[index[0], index[1], index[2], index[3]] = 1.0
        total = total + functional.mse_loss(torch.sigmoid(predicted[:, :2]), centre)
        total = total + functional.mse_loss(predicted[:, 2:4], size)
        total = total + functional.binary_cross_entropy_with_logits(raw[..., 4], objectness)
        classes = functional.one_hot(label, predicted.shape[1] - 5).to(predicted.dtype)
        total = total + functional.binary_cross_entropy_with_logits(predicted[:, 5:], classes)
    return total
