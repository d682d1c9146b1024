"""Relational graph attention (Busbridge et al., 2019) as MLPerf trains it on IGBH, a graph of papers. Each layer
has an attention network (Velickovic et al., 2017) for each of eleven relations, whose results are added up.

The graph of a step is sampled around some papers: in every hop, some neighbours of each new node by each relation.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch_geometric.nn import GATConv, HeteroConv

HEADS = 4
KINDS = ("paper", "author", "institute", "fos", "journal", "conference")
# (from, relation, to) -> the mean number of such neighbours of a node in IGBH, if it bounds the sampling: a paper
# has two authors and four fields of study. MANY is for relations with more neighbours than are sampled.
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
    """The number of nodes of each kind around `seeds` papers, and the edges of each relation.

    Nodes are numbered in the order of sampling, the seeds first; no node is sampled twice.
    """
    known = dict.fromkeys(KINDS, 0) | {"paper": seeds}
    frontier = {kind: (0, count) for kind, count in known.items()}
    edges: list[list[Any]] = [[] for _ in RELATIONS]
    for fan in fans:
        before = dict(known)
        for relation_edges, ((source, _, target), limit) in zip(edges, RELATIONS.items(), strict=True):
            targets = torch.arange(*frontier[target]).repeat_interleave(min(fan, limit))
            relation_edges.append(torch.stack([known[source] + torch.arange(len(targets)), targets]))
            known[source] += len(targets)
        frontier = {kind: (before[kind], known[kind]) for kind in KINDS}
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
