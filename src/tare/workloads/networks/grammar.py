"""A neural context-free grammar (Kim et al., 2019), and the inside algorithm that sums over all trees."""

from typing import Any

import torch
from torch import nn

# The log probability of impossible symbols.
NOTHING = -1e4


class Deep(nn.Module):
    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()) for _ in range(2)
        )
        self.last = nn.Linear(width, out)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(x).log_softmax(-1)


class NeuralGrammar(nn.Module):
    """The log probability of each sentence under all of its trees."""

    def __init__(self, vocabulary: int, rules: int, tags: int, width: int) -> None:
        super().__init__()
        self.rules, self.tags = rules, tags
        self.start = nn.Parameter(torch.randn(1, width))
        self.rule = nn.Parameter(torch.randn(rules, width))
        self.tag = nn.Parameter(torch.randn(tags, width))
        self.root, self.word = Deep(width, rules), Deep(width, vocabulary)
        self.split = nn.Linear(width, (rules + tags) ** 2)

    def forward(self, words: Any) -> Any:
        emit = self.word(self.tag)[:, words].permute(1, 2, 0)
        both = self.rules + self.tags
        split = self.split(self.rule).log_softmax(-1).view(self.rules, both * both)
        root = self.root(self.start)[0]
        return torch.logsumexp(self.inside(emit, split) + root, dim=-1)

    def inside(self, emit: Any, split: Any) -> Any:
        """Scores of every rule over the whole sentence, computed from spans of two words upwards (Baker, 1979)."""
        batch, length, _ = emit.shape
        # Tags span one word, rules span more. Every span has scores for both; the impossible ones are NOTHING.
        words = torch.cat([emit.new_full((batch, length, self.rules), NOTHING), emit], dim=-1)
        spans = [words]
        for size in range(2, length + 1):
            count = length - size + 1
            parts = []
            for cut in range(1, size):
                left_child = spans[cut - 1][:, :count]
                right_child = spans[size - cut - 1][:, cut : cut + count]
                parts.append(left_child[..., :, None] + right_child[..., None, :])
            pairs = torch.logsumexp(torch.stack(parts, dim=0), dim=0).flatten(-2)
            # A matrix product of probabilities, scaled by the largest so that they do not underflow.
            largest = pairs.amax(-1, keepdim=True)
            scores = torch.log(torch.exp(pairs - largest) @ split.exp().t() + 1e-30) + largest
            no_tags = scores.new_full((batch, count, self.tags), NOTHING)
            spans.append(torch.cat([scores, no_tags], dim=-1))
        return spans[-1][:, 0, : self.rules]
