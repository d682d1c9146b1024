"""Recommendation networks: embeddings of categories, and their interactions."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional


def layers(widths: Sequence[int], last: bool = True) -> nn.Sequential:
    """Linear layers with ReLU between them, and after the last one if `last` is true."""
    parts: list[Any] = []
    for into, out in itertools.pairwise(widths):
        parts += [nn.Linear(into, out), nn.ReLU()]
    return nn.Sequential(*(parts if last else parts[:-1]))


class Dlrm(nn.Module):
    """Naumov et al. (2019): layers over numbers, embedding tables, products of all pairs, layers over these."""

    def __init__(self, rows: int, width: int, tables: int, dense: int) -> None:
        super().__init__()
        self.below = layers([dense, 4 * width, 2 * width, width])
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        count = tables + 1
        self.register_buffer("pairs", torch.tril_indices(count, count, -1))
        top = 8 * width
        self.above = layers([width + count * (count - 1) // 2, top, top, top // 2, top // 4, 1], last=False)

    def forward(self, dense: Any, sparse: Any) -> Any:
        x = self.below(dense)
        embeddings = [table(sparse[:, i : i + 1]) for i, table in enumerate(self.tables)]
        vectors = torch.stack([x, *embeddings], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.above(torch.cat([x, products], dim=1)).squeeze(1)


class DeepFm(nn.Module):
    """Guo et al. (2017): a factorisation machine and a deep network over the same embeddings."""

    def __init__(self, rows: int, width: int, tables: int, dense: int, hidden: int) -> None:
        super().__init__()
        self.register_buffer("offsets", torch.arange(tables) * rows)
        self.first = nn.Embedding(tables * rows, 1)
        self.second = nn.Embedding(tables * rows, width)
        nn.init.normal_(self.second.weight, std=0.01)
        self.linear = nn.Linear(dense, 1)
        self.deep = layers([tables * width + dense, hidden, hidden, hidden, 1], last=False)

    def forward(self, dense: Any, sparse: Any) -> Any:
        indices = sparse + self.offsets
        x = self.second(indices)
        # The sum over all pairs is half of (the square of the sum - the sum of the squares) (Rendle, 2010).
        pairs = (x.sum(1).square() - x.square().sum(1)).sum(1, keepdim=True) / 2
        deep = self.deep(torch.cat([x.flatten(1), dense], dim=1))
        return (self.first(indices).sum(1) + self.linear(dense) + pairs + deep).squeeze(1)


class Ncf(nn.Module):
    """He et al. (2017): generalised matrix factorisation beside layers over both embeddings."""

    def __init__(self, users: int, items: int, width: int) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)
        self.user_deep, self.item_deep = nn.Embedding(users, 2 * width), nn.Embedding(items, 2 * width)
        self.deep = layers([4 * width, 4 * width, 2 * width, width])
        self.score = nn.Linear(2 * width, 1)

    def forward(self, user: Any, item: Any) -> Any:
        product = self.user(user) * self.item(item)
        deep = self.deep(torch.cat([self.user_deep(user), self.item_deep(item)], dim=1))
        return self.score(torch.cat([product, deep], dim=1)).squeeze(1)


class DeepRecommender(nn.Module):
    """Kuchaiev and Ginsburg (2017): an autoencoder of six layers with SELU over all ratings of a user."""

    def __init__(self, items: int, width: int) -> None:
        super().__init__()
        widths = [items, width, width, 2 * width, width, width, items]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        for layer in self.layers:
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = functional.selu(layer(x))
        return x
