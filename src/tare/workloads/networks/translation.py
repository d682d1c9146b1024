"""The Transformer of Vaswani et al. (2017): sinusoidal positions; source, target and output share an embedding."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional


def sinusoids(length: int, width: int) -> Any:
    """Section 3.5: sines and cosines of geometrically spaced wavelengths."""
    angles = torch.outer(torch.arange(length).double(), 10_000 ** -(torch.arange(0, width, 2).double() / width))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width].float()


class Translation(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, positions: int) -> None:
        super().__init__()
        self.scale = math.sqrt(width)
        self.words = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.words.weight, std=1 / self.scale)
        self.register_buffer("places", sinusoids(positions, width))
        self.register_buffer("later", torch.ones(positions, positions, dtype=torch.bool).triu(1))
        self.transformer = nn.Transformer(width, heads, layers, layers, 4 * width, 0.0, batch_first=True)

    def forward(self, source: Any, target: Any) -> Any:
        length = target.shape[1]
        decoded = self.transformer(
            self.words(source) * self.scale + self.places[: source.shape[1]],
            self.words(target) * self.scale + self.places[:length],
            tgt_mask=self.later[:length, :length],
            tgt_is_causal=True,  # otherwise torch inspects the mask, which waits for the device
        )
        return functional.linear(decoded, self.words.weight)
