"""The decoder-only language model Llama 3 (Grattafiori et al., 2024): RMS norm, rotary positions, grouped queries,
gated feed-forward. It reads a whole text at once, or one token with a cache of keys and values."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

BASE = 500_000.0


class Rotary(nn.Module):
    """Angles of the rotary embedding (Su et al., 2021) for every position, computed once."""

    def __init__(self, size: int, positions: int) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(positions).double(), BASE ** -(torch.arange(0, size, 2).double() / size))
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def forward(self, x: Any, positions: Any) -> Any:
        cos, sin = self.cos[positions], self.sin[positions]
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, linear: Callable[..., Any]) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.query = linear(width, heads * self.size, bias=False)
        self.key = linear(width, groups * self.size, bias=False)
        self.value = linear(width, groups * self.size, bias=False)
        self.out = linear(heads * self.size, width, bias=False)

    def forward(self, x: Any, rotary: Any, positions: Any, cache: Any = None) -> Any:
        batch, length, _ = x.shape
        query = rotary(self.query(x).view(batch, length, self.heads, self.size).transpose(1, 2), positions)
        key = rotary(self.key(x).view(batch, length, self.groups, self.size).transpose(1, 2), positions)
        value = self.value(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        mask = None
        if cache is not None:
            # The cache has its full length from the start, as in a compiled server; later positions are masked.
            key, value = cache[0].index_copy_(2, positions, key), cache[1].index_copy_(2, positions, value)
            mask = torch.arange(key.shape[2], device=x.device) <= positions[:, None]
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, enable_gqa=True
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class Gated(nn.Module):
    """SwiGLU (Shazeer, 2020)."""

    def __init__(self, width: int, inner: int, linear: Callable[..., Any] = nn.Linear) -> None:
        super().__init__()
        self.gate = linear(width, inner, bias=False)
        self.up = linear(width, inner, bias=False)
        self.down = linear(inner, width, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, width: int, attention: Any, forward: Any) -> None:
        super().__init__()
        self.first, self.second = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.attention, self.feed = attention, forward

    def forward(self, x: Any, rotary: Any, positions: Any, cache: Any = None) -> Any:
        x = x + self.attention(self.first(x), rotary, positions, cache)
        return x + self.feed(self.second(x))


class Llama(nn.Module):
    """`feed` builds the feed-forward part of a block. The output shares the weights of the embedding."""

    def __init__(
        self, vocabulary: int, width: int, layers: int, heads: int, groups: int, positions: int,
        feed: Callable[[], Any], linear: Callable[..., Any] = nn.Linear,
    ) -> None:  # fmt: skip
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.rotary = Rotary(width // heads, positions)
        self.blocks = nn.ModuleList(
            Block(width, Attention(width, heads, groups, linear), feed()) for _ in range(layers)
        )
        self.norm = nn.RMSNorm(width, eps=1e-5)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens: Any) -> Any:
        """The scores of the next token at every position of a text."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.rotary, positions)
        return functional.linear(self.norm(x), self.embedding.weight)


class Decode(nn.Module):
    """One decoding step: adds the token's keys and values to the cache, attends to it, scores the next token."""

    def __init__(self, model: Llama) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: Any, position: Any, cache: Any) -> Any:
        x = self.model.embedding(token)
        for i, block in enumerate(self.model.blocks):
            x = block(x, self.model.rotary, position, cache[i])
        return functional.linear(self.model.norm(x), self.model.embedding.weight)
