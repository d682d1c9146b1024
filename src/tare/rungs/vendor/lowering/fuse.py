"""Rewrites of a captured plan that save calls and memory traffic: batch norms folded into convolutions, sums and
activations fused into the op before them, and images with few channels rearranged for tensor cores."""

from collections import Counter
from typing import Any

from tare.rungs.vendor.lowering.operators import DIFFERENTIABLE_FROM_RESULT
from tare.rungs.vendor.lowering.plan import ExecutionPlan, Op, Value

# Ops that can add `z` to their result, by whether the plan trains. In training a convolution cannot: its gradient
# would need the result before the sum.
CAN_ADD = {False: {"conv", "affine"}, True: {"batch_norm"}}
CAN_ACTIVATE = {"conv", "affine", "batch_norm", "linear", "add"}
# Tensor-core engines of cuDNN want the number of channels to be a multiple of this.
CHANNEL_MULTIPLE = 8


def fold_batch_norms(plan: ExecutionPlan) -> None:
    """Inference: w' = w * scale / sqrt(var + eps) and b' = shift - mean * scale / sqrt(var + eps)."""
    import torch

    uses = _count_uses(plan)
    for op in [op for op in plan.ops if op.kind == "batch_norm_inference"]:
        mean, var = (op.inputs[role].content.double() for role in ("mean", "var"))
        factor = (var + op.attributes["eps"]).rsqrt()
        if "scale" in op.inputs:
            factor = factor * op.inputs["scale"].content.double()
        shift = op.inputs["shift"].content.double() if "shift" in op.inputs else torch.zeros_like(mean)
        offset = shift - mean * factor
        previous = plan.producer(op.inputs["x"])
        if previous is not None and _has_known_weights(previous) and uses[op.inputs["x"]] == 1:
            _fold(plan, previous, factor, offset)
            _merge_into(plan, previous, op)
        else:
            op.kind = "affine"
            op.attributes.clear()
            tables = {"scale": factor, "shift": offset}
            op.inputs = {"x": op.inputs["x"]} | {
                role: plan.make(v.shape, "f32", role, "weights", v.float()) for role, v in tables.items()
            }


def _has_known_weights(op: Op) -> bool:
    """Whether it is a convolution whose filter and bias are constants, not computed in the step."""
    return op.kind == "conv" and all(
        op.inputs[role].content is not None for role in ("w", "b") if role in op.inputs
    )


def _fold(plan: ExecutionPlan, conv: Op, factor: Any, offset: Any) -> None:
    weight = conv.inputs["w"]
    # The factors are computed in float64; the filters are multiplied in float32, which is eight times faster.
    folded = weight.content * factor.float().reshape(-1, 1, 1, 1)
    if "b" in conv.inputs:
        offset = offset + conv.inputs["b"].content.double() * factor
    conv.inputs["w"] = plan.make(weight.shape, name=weight.name, region="weights", content=folded)
    conv.inputs["b"] = plan.make(
        weight.shape[:1], name=f"{weight.name}.bias", region="weights", content=offset.float()
    )


def fuse(plan: ExecutionPlan, training: bool) -> None:
    """A sum after a convolution or batch norm becomes its `z`; an activation becomes the previous op's own."""
    for op in [op for op in plan.ops if op.kind == "add" and "z" in op.inputs]:
        _fuse_sum(plan, op, CAN_ADD[training])
    for op in [op for op in plan.ops if op.kind == "activation"]:
        previous = plan.producer(op.inputs["x"])
        only_use = _count_uses(plan)[op.inputs["x"]] == 1
        if previous and only_use and _can_activate(previous, op.attributes["activation"], training):
            previous.attributes |= op.attributes
            _merge_into(plan, previous, op)


def _can_activate(op: Op, activation: str, training: bool) -> bool:
    """In training the derivative must follow from the result, or from the argument where a batch norm can compute
    that again. It cannot if a skip connection was added."""
    if op.kind not in CAN_ACTIVATE or "activation" in op.attributes:
        return False
    recomputes = op.kind == "batch_norm" and "z" not in op.inputs
    return not training or activation in DIFFERENTIABLE_FROM_RESULT or recomputes


def _fuse_sum(plan: ExecutionPlan, op: Op, can_add: set[str]) -> None:
    uses = _count_uses(plan)
    candidates = []
    for role, other in (("x", "z"), ("z", "x")):
        previous = plan.producer(op.inputs[role])
        if previous is None or previous.kind not in can_add or uses[op.inputs[role]] != 1:
            continue
        if "z" not in previous.inputs and "activation" not in previous.attributes:
            candidates.append((plan.ops.index(previous), previous, op.inputs[other]))
    if not candidates:
        return
    # The later of the two summands adds the earlier one, which then exists already. A view exists once the value
    # that it is a view of exists.
    at, previous, z = max(candidates, key=lambda candidate: candidate[0])
    producer = plan.producer(z.owner)
    if producer is None or plan.ops.index(producer) < at:
        previous.inputs["z"] = z
        _merge_into(plan, previous, op)


def _merge_into(plan: ExecutionPlan, previous: Op, op: Op) -> None:
    previous.outputs["y"] = op.outputs["y"]
    plan.ops.remove(op)


def _count_uses(plan: ExecutionPlan) -> Counter[Value]:
    bases = [v.base for v in plan.values() if v.base is not None]
    return Counter([v for op in plan.ops for v in op.inputs.values()] + plan.outputs + bases)


def pad_channels(plan: ExecutionPlan) -> None:
    """Gives convolutions of half types in channels-last as many channels as tensor cores want.

    Where a window moves by s pixels, each s x s block of pixels becomes the channels of one pixel (space to
    depth): a smaller filter with more channels that moves by one pixel computes the same sum. The remaining
    channels up to the multiple are zeros. With zeros alone, the first convolution took a fifth of a ResNet's
    inference at batch 32 on an H200. A trained filter is rearranged in every step, a fixed one here."""
    if plan.dtype == "f32" or not plan.channels_last:
        return
    for conv in [op for op in plan.ops if op.kind == "conv" and op.attributes["groups"] == 1]:
        x, w, y = conv.inputs["x"], conv.inputs["w"], conv.outputs["y"]
        if x.shape[1] % CHANNEL_MULTIPLE == 0:
            continue
        block = _block_size(conv)
        # The filter is extended with zeros to whole blocks.
        filter_size = [-(-size // block) for size in w.shape[2:]]
        if block > 1:
            image_size = [size - 1 + kernel for size, kernel in zip(y.shape[2:], filter_size, strict=True)]
            origin = conv.attributes["padding"]
            conv.attributes |= {"stride": [1, 1], "padding": [0, 0]}
        else:
            image_size, origin = list(x.shape[2:]), [0, 0]
        conv.inputs["x"] = _rearrange(plan, conv, x, image_size, block, origin)
        conv.inputs["w"] = _rearrange(plan, conv, w, filter_size, block, [0, 0])


def _block_size(conv: Op) -> int:
    """The stride, where few channels result from it; otherwise 1, which only adds channels."""
    height, width = conv.attributes["stride"]
    few_channels = conv.inputs["x"].shape[1] < CHANNEL_MULTIPLE and height <= 4
    return height if height == width and few_channels and conv.attributes["dilation"] == [1, 1] else 1


def _rearrange(
    plan: ExecutionPlan, conv: Op, value: Value, size: list[int], block: int, origin: list[int]
) -> Value:
    channels = -(-value.shape[1] * block**2 // CHANNEL_MULTIPLE) * CHANNEL_MULTIPLE
    shape = (value.shape[0], channels, *size)
    attributes: dict[str, Any] = {"block": block, "origin": origin}
    if value.region == "weights" and not any(p.value is value and p.trained for p in plan.parameters):
        content = space_to_depth(value.content, shape, block, origin)
        return plan.make(shape, name=value.name, region=value.region, content=content)
    result = plan.make(shape)
    cast = next((op for op in plan.ops if op.kind == "cast" and op.outputs["y"] is value), None)
    reads = [v for op in plan.ops for v in op.inputs.values()] + plan.outputs
    if cast is not None and sum(v.owner is value for v in reads) == 1:
        # One pass over the batch casts and rearranges it.
        cast.kind, cast.outputs, cast.attributes = "space_to_depth", {"y": result}, attributes
    else:
        plan.ops.insert(
            plan.ops.index(conv), Op("space_to_depth", {"x": value}, {"y": result}, attributes, conv.origin)
        )
    return result


def space_to_depth(image: Any, shape: tuple[int, ...], block: int, origin: list[int]) -> Any:
    """Channel (dy, dx, c) of a pixel is channel c of the pixel at block * (row, column) + (dy, dx) - origin."""
    from torch.nn import functional

    count, channels, rows, columns = shape
    image_channels, height, width = image.shape[1:]
    below, right = rows * block - height - origin[0], columns * block - width - origin[1]
    padded = functional.pad(image, (origin[1], right, origin[0], below))
    blocks = padded.reshape(count, image_channels, rows, block, columns, block)
    depth = blocks.permute(0, 3, 5, 1, 2, 4).reshape(count, -1, rows, columns)
    return functional.pad(depth, (0, 0, 0, 0, 0, channels - depth.shape[1]))
