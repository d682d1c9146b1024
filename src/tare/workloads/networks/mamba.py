"""Mamba-2 (Dao and Gu, 2024): a state-space model with matrix products within chunks and a scan between them."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

CONVOLUTION = 4


def segments(x: Any) -> Any:
    """Sums of x over every interval (j, i], minus infinity above the diagonal; their exponential is a decay."""
    length = x.shape[-1]
    total = x.cumsum(-1)
    below = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
    return (total[..., :, None] - total[..., None, :]).masked_fill(~below, float("-inf"))


def scan(x: Any, decay: Any, b: Any, c: Any, chunk: int) -> Any:
    """Listing 1 of the paper: x is (batch, length, heads, size), decay (a logarithm) is (batch, length, heads), b
    and c are (batch, length, state)."""
    batch, length, heads, size = x.shape
    chunks = length // chunk
    x = x.view(batch, chunks, chunk, heads, size)
    b, c = b.view(batch, chunks, chunk, -1), c.view(batch, chunks, chunk, -1)
    decay = decay.view(batch, chunks, chunk, heads).permute(0, 3, 1, 2)
    total = decay.cumsum(-1)
    # Within a chunk: attention with a decaying mask.
    within = torch.einsum("bzls,bzms,bhzlm,bzmhp->bzlhp", c, b, segments(decay).exp(), x)
    # The state that each chunk contributes, and the sum of the decayed states of all chunks before it.
    states = torch.einsum("bzls,bhzl,bzlhp->bzhps", b, (total[..., -1:] - total).exp(), x)
    states = torch.cat([torch.zeros_like(states[:, :1]), states], dim=1)
    between = segments(functional.pad(total[..., -1], (1, 0))).exp()
    initial_states = torch.einsum("bhzy,byhps->bzhps", between, states)[:, :-1]
    carried = torch.einsum("bzls,bzhps,bhzl->bzlhp", c, initial_states, total.exp())
    return (within + carried).reshape(batch, length, heads, size)


class Mixer(nn.Module):
    def __init__(self, width: int, state: int, size: int, chunk: int) -> None:
        super().__init__()
        self.inner, self.state, self.size, self.chunk = 2 * width, state, size, chunk
        self.heads = self.inner // size
        mixed = self.inner + 2 * state
        self.into = nn.Linear(width, self.inner + mixed + self.heads, bias=False)
        self.convolution = nn.Conv1d(mixed, mixed, CONVOLUTION, groups=mixed, padding=CONVOLUTION - 1)
        self.step_bias = nn.Parameter(torch.empty(self.heads).uniform_(-4.0, -1.0))
        self.log_rate = nn.Parameter(torch.empty(self.heads).uniform_(1, 16).log())
        self.skip = nn.Parameter(torch.ones(self.heads))
        self.norm = nn.RMSNorm(self.inner, eps=1e-5)
        self.out = nn.Linear(self.inner, width, bias=False)

    def forward(self, u: Any) -> Any:
        batch, length, _ = u.shape
        gate, mixed, step = self.into(u).split([self.inner, self.inner + 2 * self.state, self.heads], dim=-1)
        mixed = functional.silu(self.convolution(mixed.transpose(1, 2))[..., :length].transpose(1, 2))
        x, b, c = mixed.split([self.inner, self.state, self.state], dim=-1)
        step = functional.softplus(step + self.step_bias)
        x = x.reshape(batch, length, self.heads, self.size)
        y = scan(x * step[..., None], -self.log_rate.exp() * step, b, c, self.chunk)
        y = (y + self.skip[:, None] * x).reshape(batch, length, self.inner)
        return self.out(self.norm(y * functional.silu(gate)))


class Mamba(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, state: int, size: int, chunk: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=1e-5) for _ in range(layers))
        self.mixers = nn.ModuleList(Mixer(width, state, size, chunk) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        for norm, mixer in zip(self.norms, self.mixers, strict=True):
            x = x + mixer(norm(x))
        return functional.linear(self.norm(x), self.embedding.weight)
