"""BERT (Devlin et al., 2018) on torch.nn.TransformerEncoder, with heads for pretraining and for spans."""

from typing import Any

import torch
from torch import nn

POSITIONS = 512


class Encoder(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, norm_first: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(POSITIONS, width)
        self.segments = nn.Embedding(3, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, tokens: Any, segments: Any) -> Any:
        places = self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.encoder(self.norm(self.words(tokens) + places + self.segments(segments)))


class Pretraining(nn.Module):
    """The scores of masked words, and of whether the second sentence follows the first."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.encoder = Encoder(vocabulary, width, layers, heads, norm_first=True)
        self.word = nn.Linear(width, vocabulary)
        self.follows = nn.Linear(width, 2)

    def forward(self, tokens: Any, segments: Any) -> Any:
        x = self.encoder(tokens, segments)
        return self.word(x), self.follows(x[:, 0])


class Span(nn.Module):
    """Reading comprehension: the scores of each position as the start and as the end of the answer."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.encoder = Encoder(vocabulary, width, layers, heads, norm_first=False)
        self.ends = nn.Linear(width, 2)

    def forward(self, tokens: Any, segments: Any) -> Any:
        return self.ends(self.encoder(tokens, segments)).unbind(-1)
