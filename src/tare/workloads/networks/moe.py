"""Mixture of experts: each token goes to the best few of many feed-forward networks (Shazeer et al., 2017). Each
expert has a fixed capacity, as in GShard (Lepikhin et al., 2020), so that no shape depends on data."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

CAPACITY = 1.5


class Experts(nn.Module):
    def __init__(self, width: int, inner: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.experts, self.chosen = experts, chosen
        self.router = nn.Linear(width, experts, bias=False)
        self.gate = nn.Parameter(torch.empty(experts, width, inner))
        self.up = nn.Parameter(torch.empty(experts, width, inner))
        self.down = nn.Parameter(torch.empty(experts, inner, width))
        for weight in (self.gate, self.up, self.down):
            nn.init.normal_(weight, std=0.02)

    def forward(self, x: Any) -> Any:
        tokens = x.reshape(-1, x.shape[-1])
        count = tokens.shape[0]
        places = max(int(CAPACITY * count * self.chosen / self.experts), 1)
        weights, expert = self.router(tokens).softmax(-1).topk(self.chosen, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        expert = expert.flatten()
        # A token's place at its expert is the number of tokens that came to it before.
        place = functional.one_hot(expert, self.experts).cumsum(0).gather(1, expert[:, None]).squeeze(1) - 1
        fits = place < places
        slot = torch.where(fits, expert * places + place, self.experts * places)
        # One extra slot at the end takes the tokens that do not fit.
        inbox = tokens.new_zeros(self.experts * places + 1, tokens.shape[1])
        inbox = inbox.index_copy(0, slot, tokens.repeat_interleave(self.chosen, 0))
        expert_inputs = inbox[:-1].view(self.experts, places, -1)
        results = torch.bmm(
            functional.silu(torch.bmm(expert_inputs, self.gate)) * torch.bmm(expert_inputs, self.up), self.down
        )
        results = torch.cat([results.flatten(0, 1), results.new_zeros(1, results.shape[-1])])
        outputs = results[slot].view(count, self.chosen, -1) * weights[..., None]
        return outputs.sum(1).view(x.shape)
