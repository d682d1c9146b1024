"""MoCo (He et al., 2019): the second view of an image must be recognised among a queue of earlier images."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tare.workloads.networks.residual import bottlenecks

PACE, TEMPERATURE = 0.999, 0.07


class Moco(nn.Module):
    def __init__(self, width: int, length: int, depth: int) -> None:
        super().__init__()
        self.query = bottlenecks(depth, num_classes=width)
        self.key = bottlenecks(depth, num_classes=width)
        self.key.load_state_dict(self.query.state_dict())
        self.key.requires_grad_(False)
        self.register_buffer("queue", functional.normalize(torch.randn(width, length), dim=0))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    def forward(self, first: Any, second: Any) -> Any:
        """The scores of the matching pair (column 0) and of every entry of the queue."""
        query = functional.normalize(self.query(first), dim=1)
        with torch.no_grad():
            if self.training:
                for old, new in zip(self.key.parameters(), self.query.parameters(), strict=True):
                    old.lerp_(new, 1 - PACE)
            key = functional.normalize(self.key(second), dim=1)
        matching = (query * key).sum(1, keepdim=True)
        # A copy, because the queue is overwritten below and the gradient of these scores needs the old values.
        scores = torch.cat([matching, query @ self.queue.clone()], dim=1) / TEMPERATURE
        if self.training:
            with torch.no_grad():
                length = self.queue.shape[1]
                slots = (self.place + torch.arange(key.shape[0], device=key.device)) % length
                self.queue.index_copy_(1, slots, key.t().to(self.queue.dtype))
                self.place.copy_((self.place + key.shape[0]) % length)
        return scores
