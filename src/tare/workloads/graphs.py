"""Graph networks of torch-geometric, on random graphs of the size that its benchmarks use."""

from dataclasses import dataclass
from typing import Any

from tare.workloads.base import Batch
from tare.workloads.registry import workload

MODELS = {
    "basic_gnn_gcn": ("GCN", "Kipf and Welling, Graph Convolutional Networks (2016)"),
    "basic_gnn_gin": ("GIN", "Xu et al., How Powerful are Graph Neural Networks? (2018)"),
    "basic_gnn_sage": ("GraphSAGE", "Hamilton et al., Inductive Representation Learning (2017)"),
    "basic_gnn_edgecnn": ("EdgeCNN", "Wang et al., Dynamic Graph CNN (2018)"),
    "basic_gnn_gat": ("GAT", "Velickovic et al., Graph Attention Networks (2017)"),
    "basic_gnn_pna": ("PNA", "Corso et al., Principal Neighbourhood Aggregation (2020)"),
}
SIZES = {"nodes": 10000, "degree": 20, "features": 64, "hidden": 64, "layers": 3, "classes": 64}
SMOKE = {"batch": 1, "nodes": 50, "degree": 4, "features": 8, "hidden": 16, "classes": 5}


class Nodes:
    """A batch of n graphs is one graph of n parts without edges between them."""

    def inputs(self, batch: int, nodes: int, degree: int, features: int, classes: int, **_: int) -> Batch:
        import torch

        count = batch * nodes
        first_node = torch.arange(0, count, nodes).repeat_interleave(nodes * degree)
        edges = first_node + torch.randint(nodes, (2, count * degree))
        return Batch((torch.randn(count, features), edges), torch.randint(classes, (count,)))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.cross_entropy(output, target)


@dataclass(frozen=True)
class BasicGnn(Nodes):
    model: str

    def build(self, features: int, hidden: int, layers: int, classes: int, degree: int, **_: int) -> Any:
        import torch
        from torch_geometric.nn import models

        options: dict[str, Any] = {}
        if self.model == "PNA":
            options = {
                "aggregators": ["mean", "min", "max", "std"],
                "scalers": ["identity", "amplification", "attenuation"],
                "deg": torch.bincount(torch.full((1000,), degree)),
            }
        return getattr(models, self.model)(features, hidden, layers, classes, **options)


for _name, (_model, _paper) in MODELS.items():
    workload(
        _name,
        domain="graph",
        task="node classification",
        source=f"torch_geometric.nn.models.{_model}; {_paper}",
        differs="random edges",
        batch=1,
        sizes=SIZES,
        smoke=SMOKE,
        requires=("torch_geometric",),
        optimizer="adam",
    )(BasicGnn(_model))


@workload(
    "rgat",
    domain="graph",
    task="node classification",
    source="torch_geometric.nn.HeteroConv of GATConv; Busbridge et al., Relational Graph Attention (2019), with "
    "the relations, the width and the fan-out (15, 10, 5) of MLPerf's model for IGBH",
    differs="no dropout; 64 papers a step instead of 1024; no neighbour is sampled twice, which gives 236,000 "
    "nodes",
    batch=64,
    sizes={"features": 1024, "hidden": 512, "classes": 2983, "near": 15, "middle": 10, "far": 5},
    smoke={"batch": 2, "features": 8, "hidden": 16, "classes": 5, "near": 3, "middle": 2, "far": 2},
    requires=("torch_geometric",),
    optimizer="adam",
    groups=("mlperf",),
)
class RelationalGat(Nodes):
    """A batch of n is n papers, each with the neighbours that are sampled around it in three hops."""

    LAYERS = 3

    def build(self, features: int, hidden: int, classes: int, **_: int) -> Any:
        from tare.workloads.networks.rgat import RelationalGat

        return RelationalGat(features, hidden, self.LAYERS, classes)

    def inputs(  # type: ignore[override]
        self, batch: int, features: int, classes: int, near: int, middle: int, far: int, **_: int
    ) -> Batch:
        import torch

        from tare.workloads.networks.rgat import sampled

        counts, edges = sampled(batch, (near, middle, far))
        nodes = [torch.randn(count, features) for count in counts.values()]
        return Batch((torch.arange(batch), *nodes, *edges), torch.randint(classes, (batch,)))
