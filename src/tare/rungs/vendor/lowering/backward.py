"""The backward pass: for every forward op, last first, the calls that compute the gradients of its inputs.

cuDNN's training calls need these as explicit ops of the plan; torch's autograd graph cannot be exported with them
whole."""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.lowering.operators import ACTIVATION_ATTRIBUTES, DIFFERENTIABLE_FROM_RESULT
from tare.rungs.vendor.lowering.plan import ExecutionPlan, Op, Value

# The executables keep the position of a maximum in its window in one byte.
MAX_WINDOW = 256

Rule = Callable[["Backward", Op], None]
RULES: dict[str, Rule] = {}


def differentiates(*kinds: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def add_backward(plan: ExecutionPlan) -> None:
    """Appends the backward pass to a plan whose last op is the loss."""
    backward = Backward(plan)
    for op in reversed(list(plan.ops)):
        if not any(backward.requires_gradient(value) for value in op.inputs.values()):
            continue
        if op.kind not in RULES:
            raise Unsupported(f"the gradient of {op.kind}")
        plan.origin = replace(op.origin, phase="backward")
        RULES[op.kind](backward, op)
    for parameter in plan.parameters:
        # Only layers write into a parameter's gradient: a gradient from any other op would be lost.
        if parameter.trained and backward.summands(parameter.value):
            raise Unsupported(f"a weight outside of a layer ({parameter.name})")


class Backward:
    """The gradients computed so far. The gradient of a value is a list of summands, one from each of its uses."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
        self._summands: dict[Value, list[Value]] = {}
        self.parameters = {p.value: p for p in plan.parameters if p.trained}
        self._views: dict[Value, list[Value]] = {}
        for value in plan.values():
            if value.base is not None:
                self._views.setdefault(value.base, []).append(value)
        self._dependent = set(self.parameters)
        for op in plan.ops:
            if any(v in self._dependent or v.owner in self._dependent for v in op.inputs.values()):
                self._dependent.update(op.outputs.values())

    def requires_gradient(self, value: Value) -> bool:
        """Whether a trained parameter was used to compute a value, or the value that it is a view of."""
        return value in self._dependent or value.owner in self._dependent

    def summands(self, value: Value, at_most: int = 1) -> list[Value]:
        """The gradient of a value as at most this many summands; more are added up by calls of the plan."""
        summands = self._summands.get(value, [])
        # Popped, so that the views' gradients are added only once.
        for view in self._views.pop(value, []):
            summands += [value.like(base=gradient) for gradient in self.summands(view)]
        while len(summands) > at_most:
            total = value.like()
            self.plan.emit("add", {"x": summands.pop(0), "z": summands.pop(0)}, {"y": total})
            summands.append(total)
        self._summands[value] = summands
        return summands

    def gradients(self, value: Value, at_most: int = 1) -> list[Value]:
        summands = self.summands(value, at_most)
        if not summands:
            raise Unsupported("a result that the loss does not depend on")
        return summands

    def gradient(self, value: Value) -> Value:
        return self.gradients(value)[0]

    def add(self, value: Value, gradient: Value) -> None:
        self._summands.setdefault(value, []).append(gradient)

    def call(self, kind: str, inputs: dict[str, Value], x: Value, role: str = "dx", **attributes: Any) -> None:
        """Emits a call whose result, named by `role`, is a new summand of the gradient of x."""
        gradient = x.like()
        self.plan.emit(kind, inputs, {role: gradient}, **attributes)
        self.add(x, gradient)

    def weight_gradient(self, weight: Value, dtype: str = "") -> Value:
        """Where a layer writes the gradient of its weight, which may itself be computed in the step. Nothing reads
        that of a frozen weight, but a call that computes several gradients writes it."""
        parameter = self.parameters.get(weight)
        if parameter is None:
            gradient = self.plan.make(weight.shape, dtype)
            if self.requires_gradient(weight):
                self.add(weight, gradient)
            return gradient
        if parameter.gradient is not None:
            raise Unsupported(f"a weight that is used twice ({parameter.name})")
        parameter.gradient = self.plan.make(weight.shape, dtype, f"gradient of {parameter.name}", "gradient")
        return parameter.gradient

    def bias(self, op: Op, dy: Value) -> None:
        bias = op.inputs.get("b")
        if bias is not None and self.requires_gradient(bias):
            self.plan.emit("bias_gradient", {"dy": dy}, {"db": self.weight_gradient(bias)})

    def before_activation(self, op: Op) -> Value:
        """The gradient of an op's result before its activation."""
        dy = self.gradient(op.outputs["y"])
        attributes = activation_attributes(op)
        if not attributes:
            return dy
        dx = self.plan.make(dy.shape)
        # An activation that does not follow from its result was not fused, so its argument is the op's input.
        from_result = attributes["activation"] in DIFFERENTIABLE_FROM_RESULT
        known = {"y": op.outputs["y"]} if from_result else {"x": op.inputs["x"]}
        self.plan.emit("activation_backward", {**known, "dy": dy}, {"dx": dx}, **attributes)
        return dx


def activation_attributes(op: Op) -> dict[str, Any]:
    return {name: value for name, value in op.attributes.items() if name in ACTIVATION_ATTRIBUTES}


@differentiates("conv", "linear")
def layer(backward: Backward, op: Op) -> None:
    plan, x, w = backward.plan, op.inputs["x"], op.inputs["w"]
    dy = backward.before_activation(op)
    geometry = {name: value for name, value in op.attributes.items() if name not in ACTIVATION_ATTRIBUTES}
    backward.bias(op, dy)
    if backward.requires_gradient(w):
        dw = backward.weight_gradient(w)
        plan.emit(f"{op.kind}_weight_gradient", {"x": x, "dy": dy}, {"dw": dw}, **geometry)
    if backward.requires_gradient(x):
        backward.call(f"{op.kind}_input_gradient", {"w": w, "dy": dy}, x, **geometry)


@differentiates("conv_input_gradient")
def transposed_convolution(backward: Backward, op: Op) -> None:
    """The roles of the images are swapped: the gradient goes forward through the convolution."""
    plan, x, w = backward.plan, op.inputs["dy"], op.inputs["w"]
    dy = backward.gradient(op.outputs["dx"])
    if backward.requires_gradient(w):
        dw = backward.weight_gradient(w)
        plan.emit("conv_weight_gradient", {"x": dy, "dy": x}, {"dw": dw}, **op.attributes)
    if backward.requires_gradient(x):
        backward.call("conv", {"x": dy, "w": w}, x, "y", **op.attributes)


@differentiates("batch_norm")
def batch_norm(backward: Backward, op: Op) -> None:
    plan, x = backward.plan, op.inputs["x"]
    # The derivative of the activation follows from its argument, computed again from x, which is read anyway:
    # reading the result too would be one more pass over memory. With a skip connection, the result costs less.
    attributes, has_skip = activation_attributes(op), "z" in op.inputs
    from_result = bool(attributes) and has_skip
    # Two gradients meet where a residual block ends, its own and the next block's: the call adds them.
    dy, *more = backward.gradients(op.outputs["y"], at_most=2 if from_result else 1)
    inputs: dict[str, Value | None] = {
        "x": x,
        "dy": dy,
        "dy2": more[0] if more else None,
        "y": op.outputs["y"] if from_result else None,
        "shift": op.inputs["shift"] if attributes and not has_skip else None,
        "scale": op.inputs["scale"],
        "saved_mean": op.outputs["saved_mean"],
        "saved_invstd": op.outputs["saved_invstd"],
    }
    outputs = {
        "dx": plan.make(x.shape),
        "dscale": backward.weight_gradient(op.inputs["scale"], "f32"),
        "dshift": backward.weight_gradient(op.inputs["shift"], "f32"),
    }
    if from_result:
        outputs["dz"] = plan.make(x.shape)
    if has_skip:
        backward.add(op.inputs["z"], outputs.get("dz", dy))
    plan.emit("batch_norm_backward", inputs, outputs, **attributes)
    backward.add(x, outputs["dx"])


@differentiates("activation", "add")
def activation_or_sum(backward: Backward, op: Op) -> None:
    dy = backward.before_activation(op)
    backward.bias(op, dy)
    for role in ("x", "z"):
        if role in op.inputs:
            backward.add(op.inputs[role], dy)


@differentiates("multiply")
def multiply(backward: Backward, op: Op) -> None:
    dy = backward.gradient(op.outputs["y"])
    for role, other in (("x", "z"), ("z", "x")):
        if backward.requires_gradient(op.inputs[role]):
            backward.call("multiply", {"x": dy, "z": op.inputs[other]}, op.inputs[role], "y")


@differentiates("scale_channels")
def scale_channels(backward: Backward, op: Op) -> None:
    x, s = op.inputs["x"], op.inputs["s"]
    dx, ds = x.like(), s.like()
    inputs = {"x": x, "s": s, "dy": backward.gradient(op.outputs["y"])}
    backward.plan.emit("scale_channels_backward", inputs, {"dx": dx, "ds": ds})
    backward.add(x, dx)
    backward.add(s, ds)


@differentiates("copy_block")
def copy_block(backward: Backward, op: Op) -> None:
    """Copies the block back. Elements that were not copied get no gradient from here."""
    x, forward = op.inputs["x"], op.attributes
    if not backward.requires_gradient(x):
        return
    sides = {f"from_{field}": forward[f"to_{field}"] for field in ("pitch", "offset")}
    sides |= {f"to_{field}": forward[f"from_{field}"] for field in ("pitch", "offset")}
    rows, width = forward["rows"], forward["width"]
    dy = backward.gradient(op.outputs["y"])
    backward.call("copy_block", {"x": dy}, x, "y", rows=rows, width=width, clear=rows * width < x.size, **sides)


@differentiates("max_pool")
def max_pool(backward: Backward, op: Op) -> None:
    if prod(op.attributes["kernel"]) > MAX_WINDOW:
        raise Unsupported(f"the gradient of a max_pool over more than {MAX_WINDOW} pixels")
    # The forward pass keeps only the position of each maximum in its window.
    index = op.outputs["index"] = backward.plan.make(op.outputs["y"].shape, "u8")
    dy = backward.gradient(op.outputs["y"])
    backward.call("max_pool_backward", {"dy": dy, "index": index}, op.inputs["x"], **op.attributes)


@differentiates("average_pool")
def average_pool(backward: Backward, op: Op) -> None:
    dy = backward.gradient(op.outputs["y"])
    backward.call("average_pool_backward", {"dy": dy}, op.inputs["x"], **op.attributes)


@differentiates("permute")
def permute(backward: Backward, op: Op) -> None:
    order, dy = op.attributes["order"], backward.gradient(op.outputs["y"])
    inverse = [order.index(d) for d in range(len(order))]
    backward.call("permute", {"x": dy}, op.inputs["x"], "y", order=inverse)


@differentiates("space_to_depth")
def space_to_depth(backward: Backward, op: Op) -> None:
    dx = backward.weight_gradient(op.inputs["x"])
    backward.plan.emit("depth_to_space", {"x": backward.gradient(op.outputs["y"])}, {"y": dx}, **op.attributes)


@differentiates("cross_entropy", "mean_square")
def loss(backward: Backward, op: Op) -> None:
    x, target = op.inputs["x"], op.inputs["target"]
    if op.kind == "mean_square" and not backward.requires_gradient(x):
        # The mean square is symmetric.
        x, target = target, x
        op.inputs |= {"x": x, "target": target}
    if backward.requires_gradient(target):
        raise Unsupported(f"the gradient of a {op.kind} by its target")
    backward.add(x, op.outputs["dx"])


@differentiates("lstm")
def lstm(backward: Backward, op: Op) -> None:
    x = op.inputs["x"]
    weights = {role: value for role, value in op.inputs.items() if role != "x"}
    if not all(value in backward.parameters for value in weights.values()):
        raise Unsupported("the gradient of an lstm with frozen weights")
    if any(backward.summands(op.outputs[role]) for role in ("h", "c")):
        raise Unsupported("the gradient of an lstm's last state")
    outputs = {f"d{role}": backward.weight_gradient(value) for role, value in weights.items()}
    inputs = {"x": x, "y": op.outputs["y"], "dy": backward.gradient(op.outputs["y"]), **weights}
    op.attributes["training"] = True
    if backward.requires_gradient(x):
        outputs["dx"] = backward.plan.make(x.shape)
        backward.add(x, outputs["dx"])
    sizes = {name: op.attributes[name] for name in ("layers", "hidden", "slot")}
    backward.plan.emit("lstm_backward", inputs, outputs, **sizes)
