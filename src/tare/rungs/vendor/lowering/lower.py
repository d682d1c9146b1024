"""A case of the vendor rung, lowered: what its executable reads is written into a folder."""

import json
from pathlib import Path
from typing import Any

from tare.cases.case import Case
from tare.errors import Unsupported
from tare.rungs.vendor.lowering.capture import capture
from tare.rungs.vendor.lowering.depth import deepen
from tare.rungs.vendor.lowering.fuse import fold_batch_norms, fuse
from tare.rungs.vendor.lowering.gradients import add_backward
from tare.rungs.vendor.lowering.layout import add_update, lay_out
from tare.rungs.vendor.lowering.plan import Step, Value
from tare.workloads.base import Workload
from tare.workloads.objective import objective

_TYPES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
VERSION = 1


def lower(
    workload: Workload,
    case: Case,
    batch: tuple[Any, ...],
    storage: str,
    autocast: str | None,
    learning_rate: float,
) -> Step:
    """`storage` is the type of the weights, `autocast` the one of the arithmetic where it differs; `batch` are the
    tensors of one step, the target last where it trains."""
    import torch

    if any(tensor is None for tensor in batch):
        raise Unsupported("a loss without a target")
    if not all(isinstance(tensor, torch.Tensor) for tensor in batch):
        raise Unsupported("a batch or a target of several tensors in one")
    model = workload.build(case.sizes)
    # The very numbers of the other rungs: rounded to the type they are stored in.
    model = model.to(getattr(torch, storage)).float().train(case.mode == "train")
    step = Step(_TYPES[autocast or storage], channels_last=case.layout == "channels-last")
    if case.mode == "infer":
        with torch.no_grad():
            capture(model, batch, step)
        fold_batch_norms(step)
        fuse(step, training=False)
        # Folding has made other weights of them; nothing asks for a gradient by name.
        step.parameters.clear()
        deepen(step)
    else:
        capture(objective(workload, model), batch, step, prefix="model.", targets=1)
        if any(op.kind == "batch_norm_inference" for op in step.ops):
            raise Unsupported("training with a batch norm that goes by its running statistics")
        fuse(step, training=True)
        deepen(step)
        _float_batch_norms(step)
        add_backward(step)
        add_update(step, learning_rate, workload.momentum, half_storage=storage != "float32")
    lay_out(step)
    return step


def write(step: Step, folder: Path) -> None:
    """`step.json` and, beside it, the first contents of everything that has some."""
    values = step.values()
    number = {id(value): i for i, value in enumerate(values)}
    contents = []
    with (folder / "data.bin").open("wb") as file:
        for value in values:
            if value.content is None:
                continue
            contents.append({"value": number[id(value)], "at": file.tell()})
            file.write(_bytes(value))
    document = {
        "version": VERSION,
        "dtype": step.dtype,
        # In half precision an update is mostly the rounding of the weight, and proves nothing.
        "updates": not any(op.attributes.get("round") for op in step.ops),
        "regions": step.regions,
        "values": [_describe(value) for value in values],
        "ops": [
            {
                "kind": op.kind,
                "in": {role: number[id(v)] for role, v in op.inputs.items()},
                "out": {role: number[id(v)] for role, v in op.outputs.items()},
                "attributes": op.attributes,
            }
            for op in step.ops
        ],
        "inputs": [number[id(v)] for v in step.inputs],
        "outputs": [number[id(v)] for v in step.outputs],
        "parameters": [
            {"name": p.name, "master": number[id(p.master)], "gradient": number[id(p.gradient)]}
            for p in step.parameters
            if p.master is not None
        ],
        "fixed": [{"name": p.name, "value": number[id(p.value)]} for p in step.parameters if p.master is None],
        "contents": contents,
    }
    (folder / "step.json").write_text(json.dumps(document))


def _describe(value: Value) -> dict[str, Any]:
    return {
        "name": value.name,
        "shape": value.shape,
        "strides": value.strides,
        "channels_last": value.channels_last,
        "dtype": value.dtype,
        "region": value.region,
        "offset": value.offset,
    }


def _bytes(value: Value) -> bytes:
    import torch

    types = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64}
    tensor = value.content.detach().cpu().to(types[value.dtype])
    if value.channels_last:
        tensor = tensor.permute(0, 2, 3, 1)
    data: bytes = tensor.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
    return data


def _float_batch_norms(step: Step) -> None:
    """A batch norm's weights are float32 whatever the step's type, as in cuDNN and in torch's own kernels."""
    for op in step.ops:
        if op.kind == "batch_norm":
            for role in ("scale", "shift"):
                op.inputs[role].dtype = "f32"
