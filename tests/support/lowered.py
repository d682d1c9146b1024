"""Workloads of the zoo lowered at small sizes."""

from functools import cache
from typing import Any

import torch
from proof import SMALL, TRANSFORMER

from tare.cases.case import Case, Mode
from tare.rungs.vendor.lowering.lower import lower
from tare.rungs.vendor.lowering.plan import ExecutionPlan
from tare.workloads import get_workload
from tare.workloads.base import Batch


@cache
def lowered(
    name: str, mode: Mode, storage: str = "float32", autocast: str | None = None, channels_last: bool = False
) -> ExecutionPlan:
    """Cached for all tests of a process: they must not change the plan."""
    workload = get_workload(name)
    sizes = {**workload.defaults, **(SMALL | TRANSFORMER)[name]}
    batch = workload.inputs(4, sizes)

    def stored(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(getattr(torch, storage)) if is_float else value

    batch = Batch(tuple(map(stored, batch.args)), stored(batch.target))
    case = Case(
        workload=name,
        rung="vendor",
        mode=mode,
        batch=4,
        sizes=sizes,
        layout="channels-last" if channels_last else "contiguous",
        optimizer="sgd" if mode == "train" else None,
    )
    return lower(workload, case, batch, storage, autocast, 0.01)
