"""Recommendation: DLRM, the deep recommender, factorisation machines, neural collaborative filtering."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.registry import workload

# The number of categorical features in the Criteo data.
SPARSE = 26


class Clicks:
    """Numerical and categorical features in, the logit of a click out."""

    def inputs(self, batch: int, rows: int, dense: int = 13, tables: int = SPARSE, **_: int) -> Batch:
        import torch

        clicked = torch.randint(2, (batch,)).float()
        return Batch((torch.randn(batch, dense), torch.randint(rows, (batch, tables))), clicked)

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.binary_cross_entropy_with_logits(output, target)


@workload(
    "dlrm",
    domain="recommendation",
    task="click prediction",
    source="written here; Naumov et al., DLRM (2019), layers as in MLPerf on Criteo",
    differs="tables of 100,000 rows each instead of up to 40 million, with dense gradients; one index per table",
    batch=2048,
    sizes={"rows": 100000, "width": 128, "tables": SPARSE, "dense": 13},
    smoke={"batch": 16, "rows": 100, "width": 16, "tables": 4},
    groups=("mlperf",),
)
class Dlrm(Clicks):
    def build(self, rows: int, width: int, tables: int, dense: int) -> Any:
        from tare.workloads.networks.recommendation import Dlrm

        return Dlrm(rows, width, tables, dense)


@workload(
    "deepfm",
    domain="recommendation",
    task="click prediction",
    source="written here; Guo et al., DeepFM (2017)",
    differs="no dropout; all fields have 100,000 values",
    batch=4096,
    sizes={"rows": 100000, "width": 10, "tables": SPARSE, "dense": 13, "hidden": 400},
    smoke={"batch": 16, "rows": 100, "tables": 4, "hidden": 32},
    optimizer="adam",
)
class DeepFm(Clicks):
    def build(self, rows: int, width: int, tables: int, dense: int, hidden: int) -> Any:
        from tare.workloads.networks.recommendation import DeepFm

        return DeepFm(rows, width, tables, dense, hidden)


@workload(
    "ncf",
    domain="recommendation",
    task="ranking",
    source="written here; He et al., Neural Collaborative Filtering (2017), with the numbers of users and items "
    "of MovieLens 20M",
    batch=2048,
    sizes={"users": 138493, "items": 26744, "width": 64},
    smoke={"batch": 16, "users": 50, "items": 40, "width": 8},
    optimizer="adam",
    groups=("mlperf",),
)
class CollaborativeFiltering(Clicks):
    def build(self, users: int, items: int, width: int) -> Any:
        from tare.workloads.networks.recommendation import Ncf

        return Ncf(users, items, width)

    def inputs(self, batch: int, users: int, items: int, **_: int) -> Batch:  # type: ignore[override]
        import torch

        liked = torch.randint(2, (batch,)).float()
        return Batch((torch.randint(users, (batch,)), torch.randint(items, (batch,))), liked)


@workload(
    "nvidia_deeprecommender",
    domain="recommendation",
    task="collaborative filtering",
    source="written here; Kuchaiev and Ginsburg, Training Deep AutoEncoders for Collaborative Filtering (2017)",
    differs="no dropout",
    batch=256,
    sizes={"items": 197951, "width": 512},
    smoke={"batch": 4, "items": 500, "width": 16},
)
class DeepRecommender:
    def build(self, items: int, width: int) -> Any:
        from tare.workloads.networks.recommendation import DeepRecommender

        return DeepRecommender(items, width)

    def inputs(self, batch: int, items: int, **_: int) -> Batch:
        import torch

        # About one item in a hundred has a rating, of one to five stars.
        ratings = torch.randint(1, 6, (batch, items)) * (torch.rand(batch, items) < 0.01)
        return Batch((ratings.float(),), ratings.float())

    def loss(self, output: Any, target: Any) -> Any:
        """Equation 1 of the paper: the mean squared error over the rated items."""
        rated = (target != 0).to(output.dtype)
        return ((output - target).square() * rated).sum() / rated.sum().clamp(min=1)
