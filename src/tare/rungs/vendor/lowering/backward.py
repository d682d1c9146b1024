"""What the rules of differentiation share: the gradients so far, in parts, and who wants them."""

from collections.abc import Callable
from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.lowering.plan import Op, Step, Value
from tare.rungs.vendor.lowering.pointwise import FROM_RESULT, SHAPING

Rule = Callable[["Backward", Op], None]
RULES: dict[str, Rule] = {}


def differentiates(*kinds: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


class Backward:
    def __init__(self, step: Step) -> None:
        self.step = step
        self._parts: dict[int, list[Value]] = {}
        self._weights = {id(p.value): p for p in step.parameters if p.trained}
        self._views: dict[int, list[Value]] = {}
        for value in step.values():
            if value.base is not None:
                self._views.setdefault(id(value.base), []).append(value)
        self._wanted = self._depends_on_weights()

    def wants(self, value: Value) -> bool:
        return id(value) in self._wanted

    def reaches(self, value: Value) -> bool:
        """Whether a weight lies behind a value or behind what it is a view of."""
        return self.wants(value) or self.wants(value.owner)

    def parts(self, value: Value, most: int = 1) -> list[Value]:
        """The gradient of a value as at most so many tensors whose sum it is; summed here where there are more."""
        found = self._parts.get(id(value), [])
        # Once: whoever asks again finds them among the parts.
        for view in self._views.pop(id(value), []):
            for part in self.parts(view):
                found.append(Value("", value.shape, value.dtype, channels_last=value.channels_last, base=part))
        while len(found) > most:
            total = Value("", value.shape, value.dtype, channels_last=value.channels_last)
            self.step.emit("add", {"x": found.pop(0), "z": found.pop(0)}, {"y": total})
            found.append(total)
        self._parts[id(value)] = found
        return found

    def arriving(self, value: Value, most: int = 1) -> list[Value]:
        """The parts of a gradient that there must be."""
        found = self.parts(value, most)
        if not found:
            raise Unsupported("a result that the loss does not depend on")
        return found

    def whole(self, value: Value) -> Value:
        return self.arriving(value)[0]

    def give(self, value: Value, part: Value) -> None:
        self._parts.setdefault(id(value), []).append(part)

    def weight_gradient(self, value: Value, dtype: str = "") -> Value:
        parameter = self._weights[id(value)]
        if parameter.gradient is not None:
            raise Unsupported(f"a weight that is used twice ({parameter.name})")
        parameter.gradient = self.step.make(value.shape, dtype, f"gradient of {parameter.name}", "gradient")
        return parameter.gradient

    def norm_gradient(self, value: Value) -> Value:
        """Of a batch norm's weight. A frozen one has one too, since one call makes all: it goes nowhere."""
        if self.reaches(value) and not self.is_weight(value):
            raise Unsupported("the gradient of a batch norm whose weights are computed")
        return self.weight_gradient(value, "f32") if self.is_weight(value) else self.step.make(value.shape, "f32")

    def bias(self, op: Op, dy: Value) -> None:
        """The gradient of an operator's bias, if it has one that is trained or computed from what is."""
        bias = op.inputs.get("b")
        if bias is not None and self.reaches(bias):
            self.step.emit("bias_gradient", {"dy": dy}, {"db": self.gradient_by(bias)})

    def gradient_by(self, weight: Value) -> Value:
        """Where a layer writes the gradient by its weight: the parameter's own place, or, of one that is computed,
        a part of the gradient of what computes it."""
        if self.is_weight(weight):
            return self.weight_gradient(weight)
        made = self.step.make(weight.shape)
        self.give(weight, made)
        return made

    def is_weight(self, value: Value) -> bool:
        """Whether it is one that is trained."""
        return id(value) in self._weights

    def before_activation(self, op: Op) -> Value:
        dy = self.whole(op.outputs["y"])
        kept = shaping(op)
        if not kept:
            return dy
        dx = self.step.make(dy.shape)
        # Only an activation that stands alone has a slope that its result does not tell.
        by_result = kept["activation"] in FROM_RESULT
        known = {"y": op.outputs["y"]} if by_result else {"x": op.inputs["x"]}
        self.step.emit("activation_backward", {**known, "dy": dy}, {"dx": dx}, **kept)
        return dx

    def _depends_on_weights(self) -> set[int]:
        wanted = set(self._weights)
        for op in self.step.ops:
            if any(id(v) in wanted or id(v.owner) in wanted for v in op.inputs.values()):
                wanted |= {id(v) for v in op.outputs.values()}
        return wanted


def shaping(op: Op) -> dict[str, Any]:
    """The attributes of an operator's activation, if it ends in one."""
    return {k: v for k, v in op.attributes.items() if k in SHAPING}
