"""Learning to Paint (Huang et al., 2019): an actor that proposes strokes, a network that draws them, a critic."""

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from tare.workloads.networks.actor_critic import PACE
from tare.workloads.networks.frozen import frozen
from tare.workloads.networks.residual import basic

SHAPE, COLOUR = 10, 3
DISCOUNT = 0.95**5


class Renderer(nn.Module):
    """Ten numbers of a stroke to its picture of 128x128 (the paper's neural renderer)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        widths = [SHAPE, hidden, 2 * hidden, 4 * hidden, 4096]
        self.linear = nn.Sequential(
            *(part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU()))
        )
        parts: list[Any] = []
        for into, middle, out in ((16, 32, 32), (8, 16, 16), (4, 8, 4)):
            parts += [
                nn.Conv2d(into, middle, 3, 1, 1),
                nn.ReLU(),
                nn.Conv2d(middle, out, 3, 1, 1),
                nn.PixelShuffle(2),
            ]
        self.paint = nn.Sequential(*parts)

    def forward(self, stroke: Any) -> Any:
        picture = self.paint(self.linear(stroke).view(-1, 16, 16, 16))
        return 1 - torch.sigmoid(picture)


def body(channels: int, out: int, blocks: int) -> Any:
    network = basic(blocks, num_classes=out)
    network.conv1 = nn.Conv2d(channels, 64, 3, 2, 1, bias=False)
    return network


def judge(blocks: int) -> Any:
    """The critic has weight norm in its last layer, and no batch norm, as in the paper."""
    network = basic(blocks, num_classes=1, norm_layer=lambda width: nn.GroupNorm(8, width))
    network.conv1 = nn.Conv2d(3 + 3 + 3 + 1 + 2, 64, 3, 2, 1, bias=False)
    network.fc = weight_norm(network.fc)
    return network


class Painter(nn.Module):
    def __init__(self, strokes: int, blocks: int, hidden: int) -> None:
        super().__init__()
        self.strokes = strokes
        # Canvas, target, the step, and the coordinates of the pixels.
        self.actor = body(3 + 3 + 1 + 2, strokes * (SHAPE + COLOUR), blocks)
        self.critic, self.slow = judge(blocks), judge(blocks).requires_grad_(False)
        self.renderer = Renderer(hidden).requires_grad_(False)

    def draw(self, canvas: Any, strokes: Any) -> Any:
        parts = strokes.view(-1, SHAPE + COLOUR)
        shape = self.renderer(parts[:, :SHAPE])
        colour = shape * parts[:, SHAPE:, None, None]
        shape = shape.view(-1, self.strokes, 1, *shape.shape[2:])
        colour = colour.view(-1, self.strokes, 3, *colour.shape[2:])
        for i in range(self.strokes):
            canvas = canvas * (1 - shape[:, i]) + colour[:, i]
        return canvas

    def see(self, canvas: Any, target: Any, step: Any) -> Any:
        line = torch.linspace(0, 1, canvas.shape[-1], device=canvas.device, dtype=canvas.dtype)
        grid = torch.stack(torch.meshgrid(line, line, indexing="ij"))
        plane = step[:, :, None, None].expand(-1, 1, *canvas.shape[2:])
        return torch.cat([canvas, target, plane, grid.expand(len(canvas), -1, -1, -1)], dim=1)

    def forward(self, canvas: Any, target: Any, step: Any) -> Any:
        strokes = torch.sigmoid(self.actor(self.see(canvas, target, step)))
        painted = self.draw(canvas, strokes)
        if not self.training:
            return painted
        with torch.no_grad():
            for old, new in zip(self.slow.parameters(), self.critic.parameters(), strict=True):
                old.lerp_(new, PACE)
            gain = (canvas - target).square().mean((1, 2, 3)) - (painted - target).square().mean((1, 2, 3))
            after = self.see(painted, target, step)
            wanted = gain[:, None] + DISCOUNT * self.slow(torch.cat([painted, after], dim=1))
        before = self.see(canvas, target, step)
        critic = (self.critic(torch.cat([painted.detach(), before], dim=1)) - wanted).square().mean()
        return critic - frozen(self.critic, torch.cat([painted, before], dim=1)).mean()
