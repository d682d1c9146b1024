"""Mixture of experts: each token goes to the best few of many feed-forward networks (Shazeer et al., 2017), with
places for a fixed number of tokens in each, as in GShard (Lepikhin et al., 2020): no shape depends on data."""

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
        # Which place a token takes at its expert: how many came before it.
        place = functional.one_hot(expert, self.experts).cumsum(0).gather(1, expert[:, None]).squeeze(1) - 1
        fits = place < places
        slot = torch.where(fits, expert * places + place, self.experts * places)
        # One place more than there are takes what does not fit.
        inbox = tokens.new_zeros(self.experts * places + 1, tokens.shape[1])
        inbox = inbox.index_copy(0, slot, tokens.repeat_interleave(self.chosen, 0))
        seats = inbox[:-1].view(self.experts, places, -1)
        done = torch.bmm(functional.silu(torch.bmm(seats, self.gate)) * torch.bmm(seats, self.up), self.down)
        done = torch.cat([done.flatten(0, 1), done.new_zeros(1, done.shape[-1])])
        back = done[slot].view(count, self.chosen, -1) * weights[..., None]
        return back.sum(1).view(x.shape)
