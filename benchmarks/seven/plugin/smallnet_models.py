"""Models on the package smallnet, whichever commit of it the path holds."""

from itertools import pairwise
from typing import Any

import torch
from smallnet.conv import conv_bias_relu
from smallnet.distribution import Normal
from smallnet.embedding import bag
from smallnet.errors import with_fallback
from smallnet.gemm import gemm

ROWS, TABLES, LOOKUPS, WIDTH = 5000, 4, 16, 256
LAYERS, QUANTISED_LAYERS, CHANNELS, RESOLUTION, ACTIONS = 3, 24, 32, 32, 64


class Layers(torch.nn.Module):  # type: ignore[misc]
    """Linear layers through smallnet's product."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.linear = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, x: Any) -> Any:
        for layer in self.linear:
            x = torch.relu(gemm(x, layer.weight, layer.bias))
        return x


class Vision(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        channels = [3, CHANNELS, CHANNELS]
        self.conv = torch.nn.ModuleList(torch.nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(channels))

    def forward(self, x: Any) -> Any:
        for layer in self.conv:
            x = conv_bias_relu(x, layer.weight, layer.bias)
        return x.mean((2, 3))


class Recommender(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.tables = torch.nn.ParameterList(torch.randn(ROWS, WIDTH // TABLES) for _ in range(TABLES))
        self.top = Layers([WIDTH] * (LAYERS + 1))

    def forward(self, indices: Any) -> Any:
        found = [bag(table, indices[:, i].contiguous()) for i, table in enumerate(self.tables)]
        return self.top(torch.cat(found, 1))


class Actor(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.body = Layers([ACTIONS] * 3)

    def forward(self, x: Any) -> Any:
        found = self.body(x)
        return Normal(found, found.exp()).log_density(x)


class Quantised(torch.nn.Module):  # type: ignore[misc]
    """Layers whose quantised operator this build has not: each falls back."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(QUANTISED_LAYERS))

    def forward(self, x: Any) -> Any:
        for layer in self.linear:
            x = with_fallback("quantized::linear", None, lambda x=x, layer=layer: torch.relu(layer(x)))
        return x


# Each model with what makes a batch for it.
MODELS = {
    "small_vision": (Vision, lambda batch: torch.randn(batch, 3, RESOLUTION, RESOLUTION)),
    "small_recommender": (Recommender, lambda batch: torch.randint(ROWS, (batch, TABLES, LOOKUPS))),
    "small_actor": (Actor, lambda batch: torch.randn(batch, ACTIONS)),
    "small_quantised": (Quantised, lambda batch: torch.randn(batch, 64)),
}
