"""A model and its loss as one module, for rungs that capture a whole training step."""

from typing import Any

from tare.workloads.base import Workload


def objective(workload: Workload, model: Any) -> Any:
    """A module that maps the tensors of a batch, the target last, to the loss. Its weights are named `model.*`."""
    from torch import nn

    class Objective(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: Any) -> Any:
            return workload.loss(self.model(*tensors[:-1]), tensors[-1])

    return Objective()
