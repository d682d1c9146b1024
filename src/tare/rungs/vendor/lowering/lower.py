"""Lowers a workload to the execution plan of one step."""

from typing import Any

from tare.cases.case import Case
from tare.errors import Unsupported
from tare.rungs.vendor.lowering.backward import add_backward
from tare.rungs.vendor.lowering.capture import examples, export, read_program, readable
from tare.rungs.vendor.lowering.fuse import fold_batch_norms, fuse, pad_channels
from tare.rungs.vendor.lowering.memory import add_update, lay_out
from tare.rungs.vendor.lowering.plan import TORCH_DTYPES, ExecutionPlan
from tare.workloads.base import Batch, Workload


def lower(
    workload: Workload, case: Case, batch: Batch, storage: str, autocast: str | None, learning_rate: float
) -> ExecutionPlan:
    """`storage` is the torch type of the weights, `autocast` that of the arithmetic where it differs.

    A network of the operators that the libraries have becomes their calls alone. Any other one becomes calls and
    generated kernels."""
    import torch

    trains = case.mode == "train"
    model = workload.build(case.sizes)
    # Weights are rounded to the type they are stored in, as on the other rungs.
    model = model.to(getattr(torch, storage)).float().train(trains)
    module, tensors = _step(workload, model, batch, trains), flat_tensors(batch, trains)
    with torch.set_grad_enabled(trains):
        exported = export(module, examples(tensors))
    dtype = next(ours for ours, theirs in TORCH_DTYPES.items() if theirs == (autocast or storage))
    targets = len(tensors) - len(flat_tensors(batch, False))
    try:
        plan = ExecutionPlan(dtype, channels_last=case.layout == "channels-last")
        read_program(readable(exported), module, tensors, plan, "model.", targets)
        _finish_calls(plan, trains)
    except Unsupported:
        plan = ExecutionPlan(dtype, channels_last=False, device=case.device_type)
        if storage != "float32":
            # Exported again: what a module itself computes in float32 shows in its own type only.
            module = module.to(getattr(torch, storage))
            with torch.set_grad_enabled(trains):
                exported = export(module, tensors)
        _lower_to_kernels(plan, exported, module, tensors, trains, autocast)
    if trains:
        rounds = storage != "float32"
        add_update(plan, case.optimizer or "sgd", learning_rate, workload.momentum, half_storage=rounds)
    lay_out(plan)
    return plan


def flat_tensors(batch: Batch, trains: bool) -> tuple[Any, ...]:
    """The tensors of one step, the target's last where the case trains."""
    import torch
    from torch.utils import _pytree as pytree

    leaves = pytree.tree_leaves((batch.args, batch.target if trains else None))
    return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))


def _step(workload: Workload, model: Any, batch: Batch, trains: bool) -> Any:
    """A module that maps the tensors of a batch to the outputs or to the loss. Its weights are named `model.*`."""
    import torch
    from torch.utils import _pytree as pytree

    from tare.rungs.torch.outputs import TensorOutputs

    leaves, structure = pytree.tree_flatten((batch.args, batch.target if trains else None))

    class Step(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: Any) -> Any:
            remaining = iter(tensors)
            filled = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            args, target = pytree.tree_unflatten(filled, structure)
            if trains:
                return workload.loss(self.model(*args), target)
            return TensorOutputs(self.model)(*args)

    return Step()


def _finish_calls(plan: ExecutionPlan, trains: bool) -> None:
    if not trains:
        fold_batch_norms(plan)
        fuse(plan, training=False)
        # Folding has replaced the weights, and inference reports no gradient by name.
        plan.parameters.clear()
        pad_channels(plan)
        return
    if any(op.kind == "batch_norm_inference" for op in plan.ops):
        raise Unsupported("training with a batch norm that uses its running statistics")
    fuse(plan, training=True)
    pad_channels(plan)
    for op in plan.ops:
        if op.kind == "batch_norm":
            # cuDNN and torch's own kernels keep a batch norm's weights in float32 whatever the type.
            op.inputs["scale"].dtype = op.inputs["shift"].dtype = "f32"
    add_backward(plan)


def _lower_to_kernels(
    plan: ExecutionPlan,
    exported: Any,
    module: Any,
    tensors: tuple[Any, ...],
    trains: bool,
    autocast: str | None,
) -> None:
    from tare.rungs.vendor.fusion.emit import emit_step
    from tare.rungs.vendor.fusion.trace import trace

    emit_step(plan, trace(exported, module, tensors, trains, autocast), tensors)
    if not trains:
        plan.parameters.clear()
