"""Selects one entry of a model's output."""

from typing import Any

from torch import nn


class Pick(nn.Module):
    def __init__(self, model: Any, key: Any) -> None:
        super().__init__()
        self.model = model
        self.key = key

    def forward(self, *args: Any) -> Any:
        return self.model(*args)[self.key]
