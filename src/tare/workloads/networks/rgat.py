"""Relational graph attention (Busbridge et al., 2019) as MLPerf trains it on IGBH, a graph of papers: an attention
network (Velickovic et al., 2017) for each of eleven relations, added up at each node, in layers.

A step sees what a sampler finds around some papers: of each node of a hop some neighbours by every relation.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch_geometric.nn import GATConv, HeteroConv

HEADS = 4
KINDS = ("paper", "author", "institute", "fos", "journal", "conference")
# (from, relation, to) -> how many such neighbours a node has in IGBH at the mean, where that bounds the sampling:
# a paper has two authors and four fields, but a field has more papers, and a paper more citations, than are taken.
MANY = 15
RELATIONS = {
    ("paper", "cites", "paper"): MANY,
    ("author", "rev_written_by", "paper"): 2,
    ("fos", "rev_topic", "paper"): 4,
    ("journal", "rev_published", "paper"): 1,
    ("conference", "rev_venue", "paper"): 1,
    ("paper", "written_by", "author"): 2,
    ("institute", "rev_affiliated_to", "author"): 1,
    ("author", "affiliated_to", "institute"): MANY,
    ("paper", "topic", "fos"): MANY,
    ("paper", "published", "journal"): MANY,
    ("paper", "venue", "conference"): MANY,
}


def sampled(seeds: int, fans: Iterable[int]) -> tuple[dict[str, int], list[Any]]:
    """How many nodes of each kind there are around so many papers, which come first, and the edges by relation.

    Nodes are numbered as they are found, hop by hop; none is found twice.
    """
    known = dict.fromkeys(KINDS, 0) | {"paper": seeds}
    last = {kind: (0, count) for kind, count in known.items()}
    edges: list[list[Any]] = [[] for _ in RELATIONS]
    for fan in fans:
        before = dict(known)
        for found, ((source, _, target), most) in zip(edges, RELATIONS.items(), strict=True):
            to = torch.arange(*last[target]).repeat_interleave(min(fan, most))
            found.append(torch.stack([known[source] + torch.arange(len(to)), to]))
            known[source] += len(to)
        last = {kind: (before[kind], known[kind]) for kind in KINDS}
    return known, [torch.cat(parts, dim=1) for parts in edges]


class RelationalGat(nn.Module):
    """From the features of each kind of node and the edges of each relation to the classes of the first papers."""

    def __init__(self, features: int, hidden: int, layers: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            HeteroConv({kind: self._attention(hidden if i else features, hidden) for kind in RELATIONS})
            for i in range(layers)
        )
        self.out = nn.Linear(hidden, classes)

    def _attention(self, into: int, hidden: int) -> Any:
        return GATConv(into, hidden // HEADS, heads=HEADS, add_self_loops=False)

    def forward(self, seeds: Any, *tensors: Any) -> Any:
        x = dict(zip(KINDS, tensors[: len(KINDS)], strict=True))
        edges = dict(zip(RELATIONS, tensors[len(KINDS) :], strict=True))
        for i, layer in enumerate(self.layers):
            x = layer({kind: functional.leaky_relu(x[kind]) for kind in KINDS} if i else x, edges)
        return self.out(x["paper"][seeds])
