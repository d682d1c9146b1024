"""The backward pass: for every forward operator, last first, the calls that give the gradients of its inputs."""

from math import prod

from tare.errors import Unsupported
from tare.rungs.vendor.lowering.backward import RULES, Backward, differentiates, shaping
from tare.rungs.vendor.lowering.plan import Op, Step, Value
from tare.rungs.vendor.lowering.pointwise import SHAPING

# What says where a block lies on one of its two sides.
PLACE = ("pitch", "offset")
# The place of a maximum in its window is kept in a byte.
MOST_TAPS = 256


def add_backward(step: Step) -> None:
    """Appends the backward pass of a step whose last operator is the loss."""
    backward = Backward(step)
    for op in reversed(list(step.ops)):
        if not any(backward.reaches(value) for value in op.inputs.values()):
            continue
        if op.kind not in RULES:
            raise Unsupported(f"the gradient of {op.kind}")
        RULES[op.kind](backward, op)
    for parameter in step.parameters:
        # What a layer's own call does not give to the parameter's place would be missing there.
        if parameter.trained and backward.parts(parameter.value):
            raise Unsupported(f"a weight outside of a layer ({parameter.name})")


@differentiates("conv", "linear")
def weighted(backward: Backward, op: Op) -> None:
    step, x, w = backward.step, op.inputs["x"], op.inputs["w"]
    dy = backward.before_activation(op)
    shape = {k: v for k, v in op.attributes.items() if k not in SHAPING}
    backward.bias(op, dy)
    if backward.reaches(w):
        step.emit(f"{op.kind}_weight_gradient", {"x": x, "dy": dy}, {"dw": backward.gradient_by(w)}, **shape)
    if backward.reaches(x):
        dx = step.make(x.shape)
        step.emit(f"{op.kind}_input_gradient", {"w": w, "dy": dy}, {"dx": dx}, **shape)
        backward.give(x, dx)


@differentiates("batch_norm")
def batch_norm(backward: Backward, op: Op) -> None:
    step, x = backward.step, op.inputs["x"]
    # What came before the activation is computed again from x, which is read anyway: to read the result as well
    # would be one more pass over memory. With a skip in the sum it is the result that costs less.
    kept, skips = shaping(op), "z" in op.inputs
    by_result = bool(kept) and skips
    # Two gradients meet where such a block ends (its own and the next one's): the call adds them as it reads.
    dy, *more = backward.arriving(op.outputs["y"], most=2 if by_result else 1)
    inputs: dict[str, Value | None] = {
        "x": x,
        "dy": dy,
        "dy2": more[0] if more else None,
        "y": op.outputs["y"] if by_result else None,
        "shift": op.inputs["shift"] if kept and not skips else None,
        "scale": op.inputs["scale"],
        "saved_mean": op.outputs["saved_mean"],
        "saved_invstd": op.outputs["saved_invstd"],
    }
    outputs = {
        "dx": step.make(x.shape),
        "dscale": backward.norm_gradient(op.inputs["scale"]),
        "dshift": backward.norm_gradient(op.inputs["shift"]),
    }
    if by_result:
        outputs["dz"] = step.make(x.shape)
    if skips:
        backward.give(op.inputs["z"], outputs.get("dz", dy))
    step.emit("batch_norm_backward", inputs, outputs, **kept)
    backward.give(x, outputs["dx"])


@differentiates("activation", "add")
def elementwise(backward: Backward, op: Op) -> None:
    dy = backward.before_activation(op)
    backward.bias(op, dy)
    for role in ("x", "z"):
        if role in op.inputs:
            backward.give(op.inputs[role], dy)


@differentiates("multiply")
def multiply(backward: Backward, op: Op) -> None:
    dy = backward.whole(op.outputs["y"])
    for role, other in (("x", "z"), ("z", "x")):
        if backward.reaches(op.inputs[role]):
            part = backward.step.make(dy.shape)
            backward.step.emit("multiply", {"x": dy, "z": op.inputs[other]}, {"y": part})
            backward.give(op.inputs[role], part)


@differentiates("scale_channels")
def scale_channels(backward: Backward, op: Op) -> None:
    x, s = op.inputs["x"], op.inputs["s"]
    outputs = {"dx": backward.step.make(x.shape), "ds": backward.step.make(s.shape)}
    dy = backward.whole(op.outputs["y"])
    backward.step.emit("scale_channels_backward", {"x": x, "s": s, "dy": dy}, outputs)
    backward.give(x, outputs["dx"])
    backward.give(s, outputs["ds"])


@differentiates("conv_input_gradient")
def transposed_convolution(backward: Backward, op: Op) -> None:
    """The larger image is the one that a convolution would read: its gradient goes forward through that."""
    step, x, w = backward.step, op.inputs["dy"], op.inputs["w"]
    dy = backward.whole(op.outputs["dx"])
    if backward.reaches(w):
        step.emit("conv_weight_gradient", {"x": dy, "dy": x}, {"dw": backward.gradient_by(w)}, **op.attributes)
    if backward.reaches(x):
        dx = step.make(x.shape)
        step.emit("conv", {"x": dy, "w": w}, {"y": dx}, **op.attributes)
        backward.give(x, dx)


@differentiates("copy_block")
def copy_block(backward: Backward, op: Op) -> None:
    """The same block the other way; what was not copied has no gradient from here."""
    x, now = op.inputs["x"], op.attributes
    if not backward.reaches(x):
        return
    dx = backward.step.make(x.shape, x.dtype)
    back = {f"{to}_{what}": now[f"{of}_{what}"] for to, of in (("to", "from"), ("from", "to")) for what in PLACE}
    dy = backward.whole(op.outputs["y"])
    partly = now["rows"] * now["width"] < x.size
    backward.step.emit(
        "copy_block", {"x": dy}, {"y": dx}, rows=now["rows"], width=now["width"], clear=partly, **back
    )
    backward.give(x, dx)


@differentiates("max_pool")
def max_pool(backward: Backward, op: Op) -> None:
    if prod(op.attributes["kernel"]) > MOST_TAPS:
        raise Unsupported(f"the gradient of a max_pool over more than {MOST_TAPS} pixels")
    # The place of the maximum in its window is all that has to be kept.
    op.outputs["index"] = backward.step.make(op.outputs["y"].shape, "u8")
    dx = backward.step.make(op.inputs["x"].shape)
    dy = backward.whole(op.outputs["y"])
    backward.step.emit("max_pool_backward", {"dy": dy, "index": op.outputs["index"]}, {"dx": dx}, **op.attributes)
    backward.give(op.inputs["x"], dx)


@differentiates("average_pool")
def average_pool(backward: Backward, op: Op) -> None:
    dx = backward.step.make(op.inputs["x"].shape)
    dy = backward.whole(op.outputs["y"])
    backward.step.emit("average_pool_backward", {"dy": dy}, {"dx": dx}, **op.attributes)
    backward.give(op.inputs["x"], dx)


@differentiates("reorder")
def reorder(backward: Backward, op: Op) -> None:
    x, order = op.inputs["x"], op.attributes["order"]
    # As the value lies that it is the gradient of: a view's own order may be another than the step's.
    dx = Value("", x.shape, x.dtype, channels_last=x.channels_last)
    inverse = [order.index(d) for d in range(len(order))]
    backward.step.emit("reorder", {"x": backward.whole(op.outputs["y"])}, {"y": dx}, order=inverse)
    backward.give(x, dx)


@differentiates("space_to_depth")
def space_to_depth(backward: Backward, op: Op) -> None:
    x = op.inputs["x"]
    if not backward.wants(x):
        return
    dx = backward.weight_gradient(x) if backward.is_weight(x) else backward.step.make(x.shape)
    backward.step.emit("depth_to_space", {"x": backward.whole(op.outputs["y"])}, {"y": dx}, **op.attributes)
    if not backward.is_weight(x):
        backward.give(x, dx)


@differentiates("cast")
def nothing(backward: Backward, op: Op) -> None:
    """The batch needs no gradient."""


@differentiates("cross_entropy", "mean_square")
def loss(backward: Backward, op: Op) -> None:
    x, target = op.inputs["x"], op.inputs["target"]
    if op.kind == "mean_square" and not backward.reaches(x):
        # The same either way round.
        x, target = target, x
        op.inputs |= {"x": x, "target": target}
    if backward.reaches(target):
        raise Unsupported(f"the gradient of a {op.kind} by its target")
    backward.give(x, op.outputs["dx"])


@differentiates("lstm")
def lstm(backward: Backward, op: Op) -> None:
    step, x = backward.step, op.inputs["x"]
    weights = {role: value for role, value in op.inputs.items() if role != "x"}
    if not all(backward.is_weight(value) for value in weights.values()):
        raise Unsupported("the gradient of an lstm with frozen weights")
    if any(backward.parts(op.outputs[role]) for role in ("h", "c")):
        raise Unsupported("the gradient of an lstm's last state")
    gradients = {f"d{role}": backward.weight_gradient(value) for role, value in weights.items()}
    inputs: dict[str, Value | None] = {
        "x": x,
        "y": op.outputs["y"],
        "dy": backward.whole(op.outputs["y"]),
        **weights,
    }
    op.attributes["training"] = True
    outputs = dict(gradients)
    if backward.reaches(x):
        outputs["dx"] = step.make(x.shape)
        backward.give(x, outputs["dx"])
    shape = {k: op.attributes[k] for k in ("layers", "hidden", "slot")}
    step.emit("lstm_backward", inputs, outputs, **shape)
