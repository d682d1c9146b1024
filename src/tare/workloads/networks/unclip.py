"""unCLIP (Ramesh et al., 2022): a prior that turns the embedding of a text into that of an image, and a decoder
that generates the image."""

from typing import Any

import torch
from torch import nn

from tare.workloads.networks.diffusion import DiffusionUNet, time_features


class Prior(nn.Module):
    """Section 2.2: a causal transformer over the text, its embedding, time, noisy image embedding and a query."""

    def __init__(self, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.query = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(length + 4, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, width)
        later = torch.ones(length + 4, length + 4, dtype=torch.bool).triu(1)
        self.register_buffer("later", later)

    def forward(self, words: Any, text: Any, time: Any, noisy: Any) -> Any:
        time_embedding = self.time(time_features(time, self.width).to(words.dtype))
        query = self.query.expand(words.shape[0], -1, -1)
        x = torch.cat([words, text[:, None], time_embedding[:, None], noisy[:, None], query], dim=1) + self.places
        return self.out(self.body(x, mask=self.later, is_causal=True)[:, -1])


class UnClip(nn.Module):
    """Both parts in one step: predicts the image embedding, and from it the noise in the image."""

    def __init__(self, width: int, layers: int, heads: int, length: int, channels: int) -> None:
        super().__init__()
        self.prior = Prior(width, layers, heads, length)
        self.decoder = DiffusionUNet(3, [channels, 2 * channels, 4 * channels, 8 * channels], width, heads)

    def forward(self, words: Any, text: Any, time: Any, noisy: Any, image: Any) -> Any:
        embedding = self.prior(words, text, time, noisy)
        context = torch.cat([words, embedding[:, None]], dim=1)
        return embedding, self.decoder(image, time, context)
