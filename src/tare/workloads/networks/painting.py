"""Learning to Paint (Huang et al., 2019): an actor that proposes strokes, a network that draws them, a critic."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from tare.workloads.networks.actor_critic import follow
from tare.workloads.networks.frozen import frozen

SHAPE, COLOUR = 10, 3
DISCOUNT, STEPS = 0.95**5, 40


class Renderer(nn.Module):
    """Maps the ten parameters of a stroke to an image of 128x128 (the paper's neural renderer)."""

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


class Translated(nn.Module):
    """A ReLU with a learned threshold, to be used with weight norm (Xiang and Li, 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.at = nn.Parameter(torch.zeros(1))

    def forward(self, x: Any) -> Any:
        return torch.relu(x - self.at) + self.at


Layer = Callable[[int, int, int, int], Any]


def batch_normed(into: int, out: int, size: int, stride: int) -> Any:
    return nn.Sequential(nn.Conv2d(into, out, size, stride, size // 2, bias=False), nn.BatchNorm2d(out))


def weight_normed(into: int, out: int, size: int, stride: int) -> Any:
    return weight_norm(nn.Conv2d(into, out, size, stride, size // 2))


class Block(nn.Module):
    def __init__(self, into: int, out: int, stride: int, layer: Layer, bend: Callable[[], Any]) -> None:
        super().__init__()
        self.body = nn.Sequential(layer(into, out, 3, stride), bend(), layer(out, out, 3, 1))
        self.short = layer(into, out, 1, stride) if stride > 1 else nn.Identity()
        self.bend = bend()

    def forward(self, x: Any) -> Any:
        return self.bend(self.body(x) + self.short(x))


def residual(channels: int, out: int, blocks: int, layer: Layer, bend: Callable[[], Any]) -> nn.Sequential:
    """ResNet-18 (two blocks per stage) for images of 128x128: every stage halves them, without a pool before."""
    layers: list[Any] = [layer(channels, 64, 3, 2), bend()]
    into = 64
    for width in (64, 128, 256, 512):
        for i in range(blocks):
            layers.append(Block(into, width, 1 if i else 2, layer, bend))
            into = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, out))


class Painter(nn.Module):
    """Returns the loss of a stored transition in training: a canvas, its target, the strokes drawn, and the step.
    Returns the canvas with new strokes otherwise."""

    def __init__(self, strokes: int, blocks: int, hidden: int) -> None:
        super().__init__()
        self.strokes = strokes
        # Input channels: canvas, target, step, and pixel coordinates; the critic sees two canvases.
        self.actor = residual(3 + 3 + 1 + 2, strokes * (SHAPE + COLOUR), blocks, batch_normed, nn.ReLU)
        self.critic = residual(3 + 3 + 3 + 1 + 2, 1, blocks, weight_normed, Translated)
        self.slow_actor = copy.deepcopy(self.actor).requires_grad_(False)
        self.slow = copy.deepcopy(self.critic).requires_grad_(False)
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

    def see(self, step: Any, *pictures: Any) -> Any:
        first_picture = pictures[0]
        line = torch.linspace(
            0, 1, first_picture.shape[-1], device=first_picture.device, dtype=first_picture.dtype
        )
        grid = torch.stack(torch.meshgrid(line, line, indexing="ij"))
        plane = step[:, :, None, None].expand(-1, 1, *first_picture.shape[2:])
        return torch.cat([*pictures, plane, grid.expand(len(first_picture), -1, -1, -1)], dim=1)

    def act(self, actor: Any, canvas: Any, target: Any, step: Any) -> Any:
        return self.draw(canvas, torch.sigmoid(actor(self.see(step, canvas, target))))

    def forward(self, canvas: Any, target: Any, strokes: Any, step: Any) -> Any:
        if not self.training:
            return self.act(self.actor, canvas, target, step)
        follow(self.slow, self.critic)
        follow(self.slow_actor, self.actor)
        next_step = step + 1 / STEPS
        with torch.no_grad():
            drawn = self.draw(canvas, strokes)
            after = self.act(self.slow_actor, drawn, target, next_step)
            later_value = self.slow(self.see(next_step + 1 / STEPS, drawn, after, target))
            # The gain of the stored strokes would be on both sides of the critic's error, so it is omitted.
            expected = DISCOUNT * (later_value + gain(drawn, after, target))
        critic_loss = (self.critic(self.see(next_step, canvas, drawn, target)) - expected).square().mean()
        painted = self.act(self.actor, canvas, target, step)
        value = frozen(self.critic, self.see(next_step, canvas, painted, target)) + gain(canvas, painted, target)
        return critic_loss - value.mean()


def gain(before: Any, after: Any, target: Any) -> Any:
    """By how much the squared distance to the target has decreased."""
    return (
        (before - target).square().mean((1, 2, 3), keepdim=True)
        - (after - target).square().mean((1, 2, 3), keepdim=True)
    ).flatten(1)
