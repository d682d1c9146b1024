"""Linear layers with int8 weights and one scale per row: decoding reads a quarter of float32's bytes."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Int8Linear(nn.Module):
    """Symmetric rounding of each row to -127..127 (weight only: activations keep their type)."""

    def __init__(self, into: int, out: int, bias: bool = False) -> None:
        super().__init__()
        weight = nn.Linear(into, out, bias).weight.detach()
        scale = weight.abs().amax(dim=1) / 127
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)

    def forward(self, x: Any) -> Any:
        return functional.linear(x, self.weight.to(x.dtype)) * self.scale
