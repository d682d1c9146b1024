"""The backward pass: for every forward operator, last first, the calls that give the gradients of its inputs."""

from collections.abc import Callable

from tare.errors import Unsupported
from tare.lowering.step import Op, Step, Value

Rule = Callable[["Backward", Op], None]
RULES: dict[str, Rule] = {}


def differentiates(*kinds: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def add_backward(step: Step) -> None:
    """Appends the backward pass of a step whose last operator is the loss."""
    backward = Backward(step)
    for op in reversed(list(step.ops)):
        if op.kind not in RULES:
            raise Unsupported(f"the gradient of {op.kind}")
        RULES[op.kind](backward, op)


class Backward:
    def __init__(self, step: Step) -> None:
        self.step = step
        self._parts: dict[int, list[Value]] = {}
        self._weights = {id(p.value): p for p in step.parameters}
        self._views: dict[int, list[Value]] = {}
        for value in step.values():
            if value.base is not None:
                self._views.setdefault(id(value.base), []).append(value)
        self._wanted = self._depends_on_weights()

    def wants(self, value: Value) -> bool:
        return id(value) in self._wanted

    def parts(self, value: Value, most: int = 1) -> list[Value]:
        """The gradient of a value as at most so many tensors whose sum it is; summed here where there are more."""
        found = self._parts.get(id(value), [])
        for view in self._views.get(id(value), []):
            for part in self.parts(view):
                found.append(Value("", value.shape, value.dtype, channels_last=value.channels_last, base=part))
        while len(found) > most:
            total = self.step.make(value.shape)
            self.step.emit("add", {"x": found.pop(0), "z": found.pop(0)}, {"y": total})
            found.append(total)
        self._parts[id(value)] = found
        return found

    def whole(self, value: Value) -> Value:
        found = self.parts(value)
        if not found:
            raise Unsupported("a result that the loss does not depend on")
        return found[0]

    def give(self, value: Value, part: Value) -> None:
        self._parts.setdefault(id(value), []).append(part)

    def weight_gradient(self, value: Value, dtype: str = "") -> Value:
        parameter = self._weights[id(value)]
        if parameter.gradient is not None:
            raise Unsupported(f"a weight that is used twice ({parameter.name})")
        parameter.gradient = self.step.make(value.shape, dtype, f"gradient of {parameter.name}", "gradient")
        return parameter.gradient

    def is_weight(self, value: Value) -> bool:
        return id(value) in self._weights

    def before_activation(self, op: Op) -> Value:
        dy = self.whole(op.outputs["y"])
        if "activation" not in op.attributes:
            return dy
        dx = self.step.make(dy.shape)
        inputs: dict[str, Value | None] = {"y": op.outputs["y"], "dy": dy}
        self.step.emit("activation_backward", inputs, {"dx": dx}, activation=op.attributes["activation"])
        return dx

    def _depends_on_weights(self) -> set[int]:
        wanted = {id(p.value) for p in self.step.parameters}
        for op in self.step.ops:
            if any(id(v) in wanted or id(v.owner) in wanted for v in op.inputs.values()):
                wanted |= {id(v) for v in op.outputs.values()}
        return wanted


@differentiates("conv", "linear")
def weighted(backward: Backward, op: Op) -> None:
    step, x, w = backward.step, op.inputs["x"], op.inputs["w"]
    dy = backward.before_activation(op)
    shape = {k: v for k, v in op.attributes.items() if k != "activation"}
    if "b" in op.inputs:
        step.emit("bias_gradient", {"dy": dy}, {"db": backward.weight_gradient(op.inputs["b"])})
    dw = backward.weight_gradient(w) if backward.is_weight(w) else step.make(w.shape)
    step.emit(f"{op.kind}_weight_gradient", {"x": x, "dy": dy}, {"dw": dw}, **shape)
    if not backward.is_weight(w):
        backward.give(w, dw)
    if backward.wants(x) or backward.wants(x.owner):
        dx = step.make(x.shape)
        step.emit(f"{op.kind}_input_gradient", {"w": w, "dy": dy}, {"dx": dx}, **shape)
        backward.give(x, dx)


@differentiates("batch_norm")
def batch_norm(backward: Backward, op: Op) -> None:
    step, x = backward.step, op.inputs["x"]
    # Two gradients meet where a block ends (its own and the skip's): the call adds them as it reads.
    dy, *more = backward.parts(op.outputs["y"], most=2)
    inputs: dict[str, Value | None] = {
        "x": x,
        "dy": dy,
        "dy2": more[0] if more else None,
        "y": op.outputs["y"] if "activation" in op.attributes else None,
        "scale": op.inputs["scale"],
        "saved_mean": op.outputs["saved_mean"],
        "saved_invstd": op.outputs["saved_invstd"],
    }
    outputs = {
        "dx": step.make(x.shape),
        "dscale": backward.weight_gradient(op.inputs["scale"], "f32"),
        "dshift": backward.weight_gradient(op.inputs["shift"], "f32"),
    }
    if "z" in op.inputs:
        outputs["dz"] = step.make(x.shape)
        backward.give(op.inputs["z"], outputs["dz"])
    kept = {k: v for k, v in op.attributes.items() if k == "activation"}
    step.emit("batch_norm_backward", inputs, outputs, **kept)
    backward.give(x, outputs["dx"])


@differentiates("activation", "add")
def elementwise(backward: Backward, op: Op) -> None:
    dy = backward.before_activation(op)
    for role in ("x", "z"):
        if role in op.inputs:
            backward.give(op.inputs[role], dy)


@differentiates("max_pool")
def max_pool(backward: Backward, op: Op) -> None:
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
    dx = backward.step.make(op.inputs["x"].shape)
    backward.step.emit("reorder", {"x": backward.whole(op.outputs["y"])}, {"y": dx})
    backward.give(op.inputs["x"], dx)


@differentiates("pad_channels")
def pad_channels(backward: Backward, op: Op) -> None:
    x = op.inputs["x"]
    if not backward.wants(x):
        return
    dx = backward.weight_gradient(x) if backward.is_weight(x) else backward.step.make(x.shape)
    backward.step.emit("crop_channels", {"x": backward.whole(op.outputs["y"])}, {"y": dx})
    if not backward.is_weight(x):
        backward.give(x, dx)


@differentiates("cast")
def nothing(backward: Backward, op: Op) -> None:
    """The batch needs no gradient."""


@differentiates("cross_entropy", "mean_square")
def loss(backward: Backward, op: Op) -> None:
    backward.give(op.inputs["x"], op.outputs["dx"])


@differentiates("lstm")
def lstm(backward: Backward, op: Op) -> None:
    step, x = backward.step, op.inputs["x"]
    weights = {role: value for role, value in op.inputs.items() if role != "x"}
    gradients = {f"d{role}": backward.weight_gradient(value) for role, value in weights.items()}
    inputs: dict[str, Value | None] = {
        "x": x,
        "y": op.outputs["y"],
        "dy": backward.whole(op.outputs["y"]),
        **weights,
    }
    # Both passes share what the forward one keeps; its size is the executor's to know, so it goes by a number.
    op.attributes["slot"] = slot = sum(other.kind == "lstm" for other in step.ops[: step.ops.index(op)])
    op.attributes["training"] = True
    outputs = dict(gradients)
    if backward.wants(x):
        outputs["dx"] = step.make(x.shape)
        backward.give(x, outputs["dx"])
    shape = {k: op.attributes[k] for k in ("layers", "hidden")}
    step.emit("lstm_backward", inputs, outputs, slot=slot, **shape)
