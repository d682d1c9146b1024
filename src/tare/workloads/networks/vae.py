"""The autoencoder of latent diffusion (Rombach et al., 2022), regularised towards a normal distribution."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tare.workloads.networks.diffusion import norm


class Residual(nn.Module):
    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            norm(into), nn.SiLU(), nn.Conv2d(into, out, 3, padding=1),
            norm(out), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1),
        )  # fmt: skip
        self.short = nn.Conv2d(into, out, 1) if into != out else nn.Identity()

    def forward(self, x: Any) -> Any:
        return self.short(x) + self.body(x)


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.into, self.out = norm(width), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: Any) -> Any:
        query, key, value = self.into(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return x + self.out(mixed.transpose(1, 2).reshape(x.shape))


def middle(width: int) -> list[Any]:
    return [Residual(width, width), Attention(width), Residual(width, width)]


class Autoencoder(nn.Module):
    """Samples the code with the given noise. Returns the image, and the code's mean and log variance."""

    def __init__(self, widths: Sequence[int], channels: int) -> None:
        super().__init__()
        down: list[Any] = [nn.Conv2d(3, widths[0], 3, padding=1)]
        into = widths[0]
        for i, width in enumerate(widths):
            down += [Residual(into, width), Residual(width, width)]
            into = width
            if i < len(widths) - 1:
                down.append(nn.Conv2d(width, width, 3, 2, 1))
        down += [*middle(into), norm(into), nn.SiLU(), nn.Conv2d(into, 2 * channels, 3, padding=1)]
        self.encoder = nn.Sequential(*down, nn.Conv2d(2 * channels, 2 * channels, 1))
        up: list[Any] = [nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, into, 3, padding=1), *middle(into)]
        for i, width in reversed(list(enumerate(widths))):
            up += [Residual(into, width), Residual(width, width), Residual(width, width)]
            into = width
            if i:
                up += [nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1)]
        self.decoder = nn.Sequential(*up, norm(into), nn.SiLU(), nn.Conv2d(into, 3, 3, padding=1))

    def forward(self, image: Any, noise: Any) -> Any:
        mean, log_variance = self.encoder(image).chunk(2, dim=1)
        log_variance = log_variance.clamp(-30, 20)
        return self.decoder(mean + torch.exp(log_variance / 2) * noise), mean, log_variance
