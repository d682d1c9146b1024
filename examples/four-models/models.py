"""A CNN, a small GPT and a training loop with its own optimizer, clipping and schedule; small-bert/ has a BERT.

tare run models.py::Cnn --device cuda --batch 32
tare run models.py::Gpt --device cuda --batch 8
tare run models.py::train_step
tare run hf:small-bert/config.json --device cuda
"""

from functools import partial
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS, LENGTH, WIDTH, HEADS, LAYERS = 8192, 128, 384, 6, 6


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


class Cnn(nn.Module):
    """A residual network for images of 64 by 64 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        self.blocks = nn.Sequential(Block(32, 64, 2), Block(64, 128, 2), Block(128, 256, 2))
        self.head = nn.Linear(256, 10)

    def forward(self, images: Annotated[Tensor, "32x3x64x64"]) -> Tensor:
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length = x.shape[0], x.shape[1]
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """A GPT of six layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH) / 50)
        self.layers = nn.Sequential(*[Layer() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: Annotated[Tensor, f"8x{LENGTH}:int64<{WORDS}"]) -> Tensor:
        return self.head(self.norm(self.layers(self.words(tokens) + self.places)))


def next_word_batch(n: int = 8) -> tuple[tuple[Tensor], Tensor]:
    """Tokens, and the token that follows each."""
    tokens = torch.randint(0, WORDS, (n, LENGTH + 1))
    return (tokens[:, :-1].contiguous(),), tokens[:, 1:].contiguous()


def image_batch(n: int = 32) -> tuple[tuple[Tensor], Tensor]:
    return (torch.randn(n, 3, 64, 64),), torch.randint(0, 10, (n,))


def loss(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())


model = Cnn()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1000, gamma=0.5)
(images,), labels = image_batch()
clip = partial(nn.utils.clip_grad_norm_, max_norm=1.0)


def train_step() -> Tensor:
    """One step of a training loop, with its own optimizer, clipping and schedule."""
    optimizer.zero_grad(set_to_none=True)
    value = loss(model(images), labels)
    value.backward()
    clip(model.parameters())
    optimizer.step()
    schedule.step()
    return value.detach()
