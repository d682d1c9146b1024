"""Lowers a workload to the execution plan of one step."""

from typing import Any

from tare.cases.case import Case
from tare.errors import Unsupported
from tare.rungs.vendor.lowering.backward import add_backward
from tare.rungs.vendor.lowering.capture import capture
from tare.rungs.vendor.lowering.fuse import fold_batch_norms, fuse, pad_channels
from tare.rungs.vendor.lowering.memory import add_update, lay_out
from tare.rungs.vendor.lowering.plan import TORCH_DTYPES, ExecutionPlan
from tare.workloads.base import Workload
from tare.workloads.objective import objective


def lower(
    workload: Workload,
    case: Case,
    batch: tuple[Any, ...],
    storage: str,
    autocast: str | None,
    learning_rate: float,
) -> ExecutionPlan:
    """`batch` are the tensors of one step, with the target last where the case trains. `storage` is the torch type
    of the weights, `autocast` that of the arithmetic where it differs."""
    import torch

    from tare.rungs.torch.outputs import TensorOutputs

    if any(tensor is None for tensor in batch):
        raise Unsupported("a loss without a target")
    if not all(isinstance(tensor, torch.Tensor) for tensor in batch):
        raise Unsupported("a batch or a target of several tensors in one")
    model = workload.build(case.sizes)
    # Weights are rounded to the type they are stored in, as on the other rungs.
    model = model.to(getattr(torch, storage)).float().train(case.mode == "train")
    dtype = next(ours for ours, theirs in TORCH_DTYPES.items() if theirs == (autocast or storage))
    plan = ExecutionPlan(dtype, channels_last=case.layout == "channels-last")
    if case.mode == "infer":
        with torch.no_grad():
            capture(TensorOutputs(model), batch, plan, prefix="model.")
        fold_batch_norms(plan)
        fuse(plan, training=False)
        # Folding has replaced the weights, and inference reports no gradient by name.
        plan.parameters.clear()
        pad_channels(plan)
    else:
        capture(objective(workload, model), batch, plan, prefix="model.", targets=1)
        if any(op.kind == "batch_norm_inference" for op in plan.ops):
            raise Unsupported("training with a batch norm that uses its running statistics")
        fuse(plan, training=True)
        pad_channels(plan)
        for op in plan.ops:
            if op.kind == "batch_norm":
                # cuDNN and torch's own kernels keep a batch norm's weights in float32 whatever the type.
                op.inputs["scale"].dtype = op.inputs["shift"].dtype = "f32"
        add_backward(plan)
        add_update(plan, learning_rate, workload.momentum, half_storage=storage != "float32")
    lay_out(plan)
    return plan
