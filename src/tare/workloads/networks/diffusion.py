"""The UNet of latent diffusion (Rombach et al., 2022): residual blocks conditioned on the time step, and
transformer blocks that attend to the text, at four resolutions. The default is that of Stable Diffusion 1."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional


def time_features(time: Any, width: int) -> Any:
    """Sines and cosines of the time step, as in Ho et al. (2020)."""
    half = width // 2
    rates = torch.exp(torch.arange(half, device=time.device, dtype=torch.float64) * (-9.210340371976184 / half))
    angles = time[:, None].to(torch.float64) * rates
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def norm(width: int) -> nn.GroupNorm:
    return nn.GroupNorm(min(32, width // 4), width)


class Residual(nn.Module):
    def __init__(self, into: int, out: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(norm(into), nn.SiLU(), nn.Conv2d(into, out, 3, padding=1))
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, out))
        self.second = nn.Sequential(norm(out), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1))
        self.short = nn.Conv2d(into, out, 1) if into != out else nn.Identity()

    def forward(self, x: Any, time: Any) -> Any:
        return self.short(x) + self.second(self.first(x) + self.time(time)[:, :, None, None])


class CrossAttention(nn.Module):
    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(context, width, bias=False)
        self.value = nn.Linear(context, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: Any, context: Any) -> Any:
        parts = [
            y.view(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2)
            for y in (self.query(x), self.key(context), self.value(context))
        ]
        mixed = functional.scaled_dot_product_attention(*parts)
        return self.out(mixed.transpose(1, 2).flatten(2))


class GeGlu(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        value, gate = self.up(x).chunk(2, dim=-1)
        return self.down(value * functional.gelu(gate))


class Look(nn.Module):
    """A transformer block over pixels: self-attention, cross-attention to the text, gated feed-forward."""

    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.norm, self.into = norm(width), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.itself, self.text = CrossAttention(width, width, heads), CrossAttention(width, context, heads)
        self.feed, self.out = GeGlu(width), nn.Conv2d(width, width, 1)

    def forward(self, x: Any, context: Any) -> Any:
        y = self.into(self.norm(x)).flatten(2).transpose(1, 2)
        z = self.norms[0](y)
        y = y + self.itself(z, z)
        y = y + self.text(self.norms[1](y), context)
        y = y + self.feed(self.norms[2](y))
        return x + self.out(y.transpose(1, 2).reshape(x.shape))


class Step(nn.Module):
    """A residual block and, unless `heads` is zero, a transformer block."""

    def __init__(self, into: int, out: int, time: int, context: int, heads: int) -> None:
        super().__init__()
        self.residual = Residual(into, out, time)
        self.look = Look(out, context, heads) if heads else None

    def forward(self, x: Any, time: Any, context: Any) -> Any:
        x = self.residual(x, time)
        return x if self.look is None else self.look(x, context)


class DiffusionUNet(nn.Module):
    def __init__(
        self, channels: int = 4, widths: Sequence[int] = (320, 640, 1280, 1280), context: int = 768,
        heads: int = 8, repeats: int = 2,
    ) -> None:  # fmt: skip
        super().__init__()
        time, last = 4 * widths[0], len(widths) - 1
        self.width = widths[0]
        self.time = nn.Sequential(nn.Linear(widths[0], time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(channels, widths[0], 3, padding=1)
        skip_widths, into = [widths[0]], widths[0]
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        for i, width in enumerate(widths):
            steps = nn.ModuleList()
            for _ in range(repeats):
                steps.append(Step(into, width, time, context, heads if i < last else 0))
                skip_widths.append(width)
                into = width
            self.down.append(steps)
            self.shrink.append(nn.Conv2d(width, width, 3, 2, 1) if i < last else nn.Identity())
            if i < last:
                skip_widths.append(width)
        self.middle = nn.ModuleList([Step(into, into, time, context, heads), Step(into, into, time, context, 0)])
        self.up, self.grow = nn.ModuleList(), nn.ModuleList()
        for i, width in reversed(list(enumerate(widths))):
            steps = nn.ModuleList()
            for _ in range(repeats + 1):
                steps.append(Step(into + skip_widths.pop(), width, time, context, heads if i < last else 0))
                into = width
            self.up.append(steps)
            self.grow.append(nn.Conv2d(width, width, 3, padding=1) if i else nn.Identity())
        self.out = nn.Sequential(norm(into), nn.SiLU(), nn.Conv2d(into, channels, 3, padding=1))

    def forward(self, x: Any, time: Any, context: Any) -> Any:
        time_embedding = self.time(time_features(time, self.width).to(x.dtype))
        x = self.first(x)
        skips = [x]
        for i, (steps, shrink) in enumerate(zip(self.down, self.shrink, strict=True)):
            for step in steps:
                x = step(x, time_embedding, context)
                skips.append(x)
            if i < len(self.down) - 1:
                x = shrink(x)
                skips.append(x)
        for step in self.middle:
            x = step(x, time_embedding, context)
        for i, (steps, grow) in enumerate(zip(self.up, self.grow, strict=True)):
            for step in steps:
                x = step(torch.cat([x, skips.pop()], dim=1), time_embedding, context)
            if i < len(self.up) - 1:
                x = grow(functional.interpolate(x, scale_factor=2.0))
        return self.out(x)
