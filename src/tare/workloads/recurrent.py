"""Recurrent networks, with the time as first dimension, as in cuDNN and DeepBench."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.registry import workload


@workload(
    "lstm",
    domain="nlp",
    task="sequence modelling",
    source="torch.nn.LSTM on DeepBench's shapes, as in the LSTM paper",
    batch=16,
    sizes={"hidden": 512, "input": 512, "layers": 1, "steps": 25},
    smoke={"batch": 4, "hidden": 64, "input": 64, "steps": 8},
)
class Lstm:
    def build(self, hidden: int, input: int, layers: int, **_: int) -> Any:
        from torch import nn

        # A bare nn.LSTM cannot be scripted (its forward is overloaded); inside another module it can.
        return nn.Sequential(nn.LSTM(input, hidden, layers))

    def inputs(self, batch: int, hidden: int, input: int, steps: int, **_: int) -> Batch:
        import torch

        return Batch((torch.randn(steps, batch, input),), torch.randn(steps, batch, hidden))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.mse_loss(output[0], target)
