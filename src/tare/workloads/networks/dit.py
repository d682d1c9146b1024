"""The diffusion transformer DiT (Peebles and Xie, 2022). Adaptive norms start random, at zero in the paper."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tare.workloads.networks.diffusion import time_features
from tare.workloads.networks.translation import sinusoids

FREQUENCIES = 256


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.second = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.attend, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.adapt = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Any, condition: Any) -> Any:
        shift, scale, gate, shift2, scale2, gate2 = self.adapt(condition)[:, None].chunk(6, dim=-1)
        batch, length, width = x.shape
        y = self.first(x) * (1 + scale) + shift
        parts = self.attend(y).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + gate * self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + gate2 * self.feed(self.second(x) * (1 + scale2) + shift2)


class DiT(nn.Module):
    def __init__(
        self, resolution: int, channels: int, patch: int, width: int, layers: int, heads: int, classes: int
    ) -> None:
        super().__init__()
        self.patch, self.side, self.out_channels = patch, resolution // patch, 2 * channels
        self.into = nn.Conv2d(channels, width, patch, patch)
        line = sinusoids(self.side, width // 2)
        rows, columns = line.repeat_interleave(self.side, 0), line.repeat(self.side, 1)
        self.register_buffer("places", torch.cat([rows, columns], dim=1))
        self.time = nn.Sequential(nn.Linear(FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width))
        self.label = nn.Embedding(classes + 1, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.adapt = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.out = nn.Linear(width, patch * patch * self.out_channels)

    def forward(self, x: Any, time: Any, label: Any) -> Any:
        condition = self.time(time_features(time, FREQUENCIES).to(x.dtype)) + self.label(label)
        x = self.into(x).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            x = block(x, condition)
        shift, scale = self.adapt(condition)[:, None].chunk(2, dim=-1)
        x = self.out(self.norm(x) * (1 + scale) + shift)
        x = x.view(-1, self.side, self.side, self.patch, self.patch, self.out_channels)
        return torch.einsum("nhwpqc->nchpwq", x).reshape(-1, self.out_channels, *[self.side * self.patch] * 2)
