"""Relational graph attention (Busbridge et al., 2019) in layers."""

from typing import Any

import torch
from torch import nn
from torch_geometric.nn import RGATConv

HEADS = 4


class RelationalGat(nn.Module):
    def __init__(self, features: int, hidden: int, layers: int, classes: int, relations: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            RGATConv(hidden if i else features, hidden // HEADS, relations, heads=HEADS) for i in range(layers)
        )
        self.out = nn.Linear(hidden, classes)

    def forward(self, x: Any, edges: Any, kinds: Any) -> Any:
        for layer in self.layers:
            x = torch.relu(layer(x, edges, kinds))
        return self.out(x)
