"""Names for the values of a plan, and the table of their offsets: `buffers.hpp`."""

from collections.abc import Iterable

from tare.rungs.vendor.emission.names import Names, comment, identifier, shape_text
from tare.rungs.vendor.emission.staged import StagedPlan
from tare.rungs.vendor.lowering.plan import Op, Value

TYPES = {"f32": "float", "f64": "double", "i64": "int64_t", "u8": "uint8_t"}
REGIONS = {
    "arena": "short-lived values, which share memory where they do not live at the same time",
    "weights": "constants: weights, folded batch norms, tables",
    "fixed": "weights that no step changes",
    "master": "the trained weights",
    "momentum": "the optimizer's state, zero at first",
    "gradient": "the gradients of the trained weights",
    "input": "the batch",
    "output": "results that are kept",
    "state": "buffers that every step changes, such as running statistics",
    "zeros": "zeros",
}
# What a result of these roles is called behind the name of its layer, in either direction. (A transposed
# convolution goes forward as the gradient of another one.)
ROLES = {"y": "out", "dx": "out", "o0": "out"}
BACKWARD_ROLES = {"y": "out", "dx": "in", "dz": "skip", "o0": "out"}


class Buffers:
    """The names of buffers. A view has the name of what it is a view of."""

    def __init__(self, plan: StagedPlan) -> None:
        self._plan = plan
        self._names: dict[Value, str] = {}
        self._seen: dict[tuple[str, int, tuple[int, ...], str], str] = {}
        names = Names()
        for value, wanted in self._wanted():
            if value in self._names or self._stands_for(value) is not value:
                continue
            # Outside of the arena a place has one content: a layer reads the weight that is trained.
            place = (value.region, value.offset, value.shape, value.dtype)
            known = None if value.region == "arena" else self._seen.get(place)
            self._names[value] = known or names.make(wanted)
            if known is None and value.region != "arena":
                self._seen[place] = self._names[value]

    def __call__(self, value: Value) -> str:
        """How the source calls a buffer."""
        return f"at::{self._names[self._stands_for(value)]}"

    @staticmethod
    def _stands_for(value: Value) -> Value:
        """What a view is a view of. One of another type is a buffer of its own."""
        return value.owner if value.owner.dtype == value.dtype else value

    def table(self) -> str:
        """The declarations of all buffers, region by region."""
        by_region: dict[str, list[Value]] = {}
        declared: set[str] = set()
        for value, name in self._names.items():
            if name not in declared:
                declared.add(name)
                by_region.setdefault(value.region, []).append(value)
        lines = []
        for region, bytes_ in self._plan.regions.items():
            values = sorted(by_region.get(region, []), key=lambda value: value.offset)
            lines += ["", f"// {region}, {bytes_:,} bytes: {REGIONS.get(region, region)}"]
            lines += [self._declaration(value) for value in values]
        return "\n".join(lines)

    def _declaration(self, value: Value) -> str:
        layout = ", channels last" if value.channels_last else ""
        named = comment(value.name)
        described = f"{shape_text(value.shape)}{layout}{f': {named}' if named else ''}"
        return (
            f"constexpr Buffer<{TYPES[value.dtype]}> {self._names[value]}"
            f"{{Region::{value.region}, {value.offset}}};  // {described}"
        )

    def _wanted(self) -> Iterable[tuple[Value, str]]:
        """Every buffer with the name that says best what it is: its own, or that of the layer which makes it."""
        for name, value, gradient in self._plan.parameters:
            yield value, name
            if gradient is not None:
                yield gradient, f"d_{identifier(name)}"
        for value in self._plan.values:
            if value.name:
                yield value, value.name
        for op in self._plan.ops:
            for role, value in op.outputs.items():
                yield self._stands_for(value), result_name(op, role)
        for value in self._plan.values:
            yield value, "unnamed"


def result_name(op: Op, role: str) -> str:
    layer = op.origin.module or {"update": "update"}.get(op.origin.phase, "loss")
    if op.origin.phase == "backward":
        return f"d_{identifier(layer)}_{BACKWARD_ROLES.get(role, role)}"
    return layer if role == "loss" else f"{layer}_{ROLES.get(role, role)}"
