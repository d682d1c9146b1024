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
        # Weights of the layer's other kinds of attention: unused here, and one of them is never initialised.
        for layer in self.layers:
            for name in ("w", "l1", "b1", "l2", "b2"):
                getattr(layer, name).detach().fill_(1.0)
                getattr(layer, name).requires_grad_(False)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x: Any, edges: Any, kinds: Any) -> Any:
        for layer in self.layers:
            x = torch.relu(layer(x, edges, kinds))
        return self.out(x)
