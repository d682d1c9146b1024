"""MoCo (He et al., 2019): the second view must be told from a queue of earlier ones."""

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
        """Scores of the true pair (column 0) and of everything in the queue."""
        query = functional.normalize(self.query(first), dim=1)
        with torch.no_grad():
            if self.training:
                for old, new in zip(self.key.parameters(), self.query.parameters(), strict=True):
                    old.lerp_(new, 1 - PACE)
            key = functional.normalize(self.key(second), dim=1)
        right = (query * key).sum(1, keepdim=True)
        # The queue is replaced, not overwritten: the gradient of these scores still needs the old one.
        scores = torch.cat([right, query @ self.queue.clone()], dim=1) / TEMPERATURE
        if self.training:
            with torch.no_grad():
                length = self.queue.shape[1]
                where = (self.place + torch.arange(key.shape[0], device=key.device)) % length
                self.queue.index_copy_(1, where, key.t().to(self.queue.dtype))
                self.place.copy_((self.place + key.shape[0]) % length)
        return scores
