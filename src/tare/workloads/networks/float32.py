"""Models that exist in float32 alone, inside a reference that asks for float64."""

from typing import Any

import torch
from torch import nn
from torch.ao.quantization import disable_observer, enable_observer


class Float32(nn.Module):
    """Keeps its parameters in float32 whatever it is converted to, and converts what comes in and goes out."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        def keep(tensor: Any) -> Any:
            made = fn(tensor)
            return made.float() if made.is_floating_point() else made

        return super()._apply(keep, recurse)

    def forward(self, x: Any) -> Any:
        if x.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"this model computes in float32, not in {x.dtype}")
        return self.model(x.float()).to(x.dtype)


class Observing(Float32):
    """A network that simulates its quantisation: the ranges of its numbers are observed in training, and are fixed
    at inference. torch leaves the observers on, and each step would move what the next one computes."""

    def train(self, mode: bool = True) -> Any:
        return super().train(mode).apply(enable_observer if mode else disable_observer)
