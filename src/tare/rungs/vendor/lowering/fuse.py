"""What one call can do instead of several: batch norm folded into convolutions, sums and ReLU behind them."""

from typing import Any

from tare.rungs.vendor.lowering.plan import Op, Step, Value
from tare.rungs.vendor.lowering.pointwise import FROM_RESULT

# Operators that can end in `+ z`. In training a convolution does not: its gradient would need the sum's.
ABSORBING = {False: {"conv", "affine"}, True: {"batch_norm"}}
ACTIVATING = {"conv", "affine", "batch_norm", "linear", "add"}


def fold_batch_norms(step: Step) -> None:
    """Inference: w' = w * scale / sqrt(var + eps) and b' = shift - mean * scale / sqrt(var + eps)."""
    import torch

    uses = _uses(step)
    for op in [op for op in step.ops if op.kind == "batch_norm_inference"]:
        mean, var = (op.inputs[role].content.double() for role in ("mean", "var"))
        factor = (var + op.attributes["eps"]).rsqrt()
        if "scale" in op.inputs:
            factor = factor * op.inputs["scale"].content.double()
        shift = op.inputs["shift"].content.double() if "shift" in op.inputs else torch.zeros_like(mean)
        offset = shift - mean * factor
        before = _producer(step, op.inputs["x"])
        if before is not None and _takes_factors(before) and uses[id(op.inputs["x"])] == 1:
            _fold(step, before, factor, offset)
            before.outputs["y"] = op.outputs["y"]
            step.ops.remove(op)
        else:
            op.kind = "affine"
            op.attributes.clear()
            made = {"scale": factor, "shift": offset}
            op.inputs = {"x": op.inputs["x"]} | {
                role: step.make(v.shape, "f32", role, "weights", v.float()) for role, v in made.items()
            }


def _takes_factors(op: Op) -> bool:
    """Whether its filter and its bias are known ahead of time, and not computed in the step."""
    return op.kind == "conv" and all(
        op.inputs[role].content is not None for role in ("w", "b") if role in op.inputs
    )


def _fold(step: Step, conv: Op, factor: Any, offset: Any) -> None:
    weight = conv.inputs["w"]
    # The factors were found in float64; the weights themselves are multiplied in float32, eight times faster.
    folded = weight.content * factor.float().reshape(-1, 1, 1, 1)
    if "b" in conv.inputs:
        offset = offset + conv.inputs["b"].content.double() * factor
    conv.inputs["w"] = step.make(weight.shape, name=weight.name, region="weights", content=folded)
    conv.inputs["b"] = step.make(
        weight.shape[:1], name=f"{weight.name}.bias", region="weights", content=offset.float()
    )


def fuse(step: Step, training: bool) -> None:
    """A sum behind a convolution or batch norm becomes its `z`; an activation behind anything becomes its own."""
    for op in [op for op in step.ops if op.kind == "add" and "z" in op.inputs]:
        _absorb_sum(step, op, ABSORBING[training])
    for op in [op for op in step.ops if op.kind == "activation"]:
        before = _producer(step, op.inputs["x"])
        alone = _uses(step)[id(op.inputs["x"])] == 1
        if before and alone and _ends_in(before, op.attributes["activation"], training):
            before.attributes |= op.attributes
            _replace_output(step, before, op)


def _ends_in(op: Op, activation: str, training: bool) -> bool:
    """Whether an operator can do an activation in its own pass. Its gradient takes the slope from the result; a
    batch norm can also compute again what came before, but not the sum with a skip."""
    if op.kind not in ACTIVATING or "activation" in op.attributes:
        return False
    again = op.kind == "batch_norm" and "z" not in op.inputs
    return not training or activation in FROM_RESULT or again


def _absorb_sum(step: Step, op: Op, absorbing: set[str]) -> None:
    uses, places = _uses(step), {id(o): i for i, o in enumerate(step.ops)}
    candidates = []
    for role, other in (("x", "z"), ("z", "x")):
        before = _producer(step, op.inputs[role])
        if before is None or before.kind not in absorbing or uses[id(op.inputs[role])] != 1:
            continue
        if "z" in before.inputs or "activation" in before.attributes:
            continue
        candidates.append((places[id(before)], before, op.inputs[other]))
    if not candidates:
        return
    # The last of the two, so that what it adds is there already.
    place, before, z = max(candidates, key=lambda candidate: candidate[0])
    # A view is there when what it is a view of is.
    made = _producer(step, z.owner)
    if made is None or places[id(made)] < place:
        before.inputs["z"] = z
        _replace_output(step, before, op)


def _replace_output(step: Step, before: Op, op: Op) -> None:
    before.outputs["y"] = op.outputs["y"]
    step.ops.remove(op)


def _producer(step: Step, value: Value) -> Op | None:
    return next((op for op in step.ops if value in op.outputs.values()), None)


def _uses(step: Step) -> dict[int, int]:
    counts: dict[int, int] = {}
    owners = [v.base for v in step.values() if v.base is not None]
    for value in [v for op in step.ops for v in op.inputs.values()] + step.outputs + owners:
        counts[id(value)] = counts.get(id(value), 0) + 1
    return counts
