"""Optimizers, made the same way on every torch rung."""

from typing import Any

import torch

from tare.cases.case import Case
from tare.workloads.base import Workload


def make_optimizer(model: Any, workload: Workload, case: Case, capturable: bool) -> Any:
    """torch's default implementation; under fp16 autocast the fused one, with which the loss scaler does not
    wait for the device in every step. `capturable` keeps Adam's step count on the device."""
    options: dict[str, Any] = {"lr": learning_rate(workload, case)}
    if case.precision == "amp-fp16":
        options["fused"] = True
    parameters = [p for p in model.parameters() if p.requires_grad]
    if case.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=workload.momentum, **options)
    if capturable:
        options["capturable"] = True
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[str(case.optimizer)]
    return kind(parameters, **options)


def learning_rate(workload: Workload, case: Case) -> float:
    # Adam's steps do not shrink with the gradient, so the learning rate of SGD would be far too large.
    return workload.learning_rate if case.optimizer == "sgd" else workload.learning_rate / 10


def zero_state(optimizer: Any) -> None:
    """Back to the first step, in place. SGD's momentum starts as the first gradient either way: from zero,
    v = momentum * 0 + g."""
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor):
                value.zero_()
