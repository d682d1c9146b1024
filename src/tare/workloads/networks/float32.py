"""Models that compute only in float32, also where the reference asks for float64."""

from typing import Any

import torch
from torch import nn
from torch.ao.quantization import disable_observer, enable_observer


class Float32(nn.Module):
    """Keeps its parameters in float32 through every conversion, and converts its input and output."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        def keep(tensor: Any) -> Any:
            converted = fn(tensor)
            return converted.float() if converted.is_floating_point() else converted

        return super()._apply(keep, recurse)

    def forward(self, x: Any) -> Any:
        if x.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"this model computes in float32, not in {x.dtype}")
        return self.model(x.float()).to(x.dtype)


class Observing(Float32):
    """A network with simulated quantisation, whose observers update the ranges in training only. torch leaves the
    observers on at inference, where each step would change the result of the next."""

    def train(self, mode: bool = True) -> Any:
        return super().train(mode).apply(enable_observer if mode else disable_observer)
