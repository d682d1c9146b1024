"""Structured prediction: the probability of trees and chains by dynamic programming."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.registry import workload


@workload(
    "pytorch_struct",
    domain="other",
    task="structured prediction",
    source="written here; Kim et al., Compound Probabilistic Context-Free Grammars (2019), as in Torch-Struct",
    differs="the neural grammar without its compound latent vector",
    batch=20,
    sizes={"length": 20, "vocabulary": 10000, "rules": 30, "tags": 60, "width": 256},
    smoke={"batch": 2, "length": 5, "vocabulary": 50, "rules": 3, "tags": 4, "width": 16},
    optimizer="adam",
)
class Grammar:
    def build(self, vocabulary: int, rules: int, tags: int, width: int, **_: int) -> Any:
        from tare.workloads.networks.grammar import NeuralGrammar

        return NeuralGrammar(vocabulary, rules, tags, width)

    def inputs(self, batch: int, length: int, vocabulary: int, **_: int) -> Batch:
        import torch

        return Batch((torch.randint(vocabulary, (batch, length)),))

    def loss(self, output: Any, target: Any) -> Any:  # noqa: ARG002
        return -output.mean()
