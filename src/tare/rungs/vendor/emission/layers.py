"""Functions of the source, one for each layer: the calls that a module makes one after the other."""

from dataclasses import dataclass, field
from itertools import groupby
from textwrap import wrap

from tare.rungs.vendor.emission.buffers import Buffers
from tare.rungs.vendor.emission.calls import CallText, described, write_call
from tare.rungs.vendor.emission.names import Names, comment
from tare.rungs.vendor.lowering.plan import Op

WIDEST = 128
PHASES = ("forward", "backward", "update")


@dataclass
class LayerFunction:
    """The calls of one module in one phase. Where others come between them, a module has several functions."""

    name: str
    module: str
    phase: str
    ops: list[Op]
    calls: list[CallText] = field(default_factory=list)

    @property
    def title(self) -> str:
        return self.module or {"update": "the weights"}.get(self.phase, "the loss")

    @property
    def flops(self) -> int | None:
        counted = [call.flops for call in self.calls if call.flops is not None]
        return sum(counted) if counted else None

    @property
    def traffic(self) -> int:
        """Bytes that its calls read and write, each buffer once a call."""
        return sum(value.nbytes for op in self.ops for value in set(op.values()))

    @property
    def memory(self) -> int:
        """Bytes of the arena that its results take."""
        results = {value.owner for op in self.ops for value in op.outputs.values()}
        return sum(value.nbytes for value in results if value.region == "arena")

    def source(self) -> str:
        lines = [f"// {comment(self.title)}", f"void {self.name}() {{"]
        for op, call in zip(self.ops, self.calls, strict=True):
            counted = f"; {call.flops:,} FLOPs" if call.flops else ""
            lines.append(f"  // {comment(described(op))}{counted}")
            if len(self.ops) > 1 and any("const ops::" in line for line in call.lines):
                # Its constants are its own.
                lines += ["  {", *(f"    {line}" for line in call.lines), "  }"]
            else:
                lines += [f"  {line}" for line in call.lines]
        return "\n".join(folded for line in [*lines, "}"] for folded in _folded(line))


def _folded(line: str) -> list[str]:
    """A line of calls with many buffers as several lines."""
    if len(line) <= WIDEST or line.lstrip().startswith("//"):
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return wrap(line, WIDEST, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def make_layers(ops: list[Op], buffers: Buffers) -> list[LayerFunction]:
    names = {phase: Names() for phase in PHASES}
    layers = []
    for (phase, module), run in groupby(ops, key=lambda op: (op.origin.phase, op.origin.module)):
        own = list(run)
        name = names[phase].make(module or ("weights" if phase == "update" else "loss"))
        layers.append(LayerFunction(name, module, phase, own, [write_call(op, buffers) for op in own]))
    return layers
