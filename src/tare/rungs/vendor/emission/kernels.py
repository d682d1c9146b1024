"""The generated kernels of a plan, each in a file of its own under a name that says what it computes."""

import re
from collections.abc import Iterable

from tare.rungs.vendor.emission.names import Names, comment, shape_text
from tare.rungs.vendor.lowering.plan import Op, Value

# Operators of torch that name a kernel, at most.
MOST_NAMED = 4
FUNCTION = re.compile(r'^extern "C" void (kernel\d+)(\(.*?^\}$)', re.MULTILINE | re.DOTALL)


INCLUDED = re.compile(r'^#include "([\w./]+)"$', re.MULTILINE)


class KernelFiles:
    """`names` maps the plan's names (`kernel3`) to readable ones (`fused_add_native_layer_norm_3`)."""

    def __init__(self, source: str, ops: Iterable[Op]) -> None:
        self._bodies = dict(FUNCTION.findall(source))
        # The headers that their source includes.
        self.headers = INCLUDED.findall(source)
        self._uses: dict[str, list[Op]] = {name: [] for name in self._bodies}
        for op in ops:
            if op.kind == "fused":
                self._uses[op.attributes["kernel"]].append(op)
        names = Names()
        self.names = {
            name: names.make("_".join(["fused", *_plain(uses[0]), name.removeprefix("kernel")]))
            for name, uses in self._uses.items()
            if uses
        }

    def __bool__(self) -> bool:
        return bool(self.names)

    def files(self) -> dict[str, str]:
        """The text of each file in `kernels/`."""
        files = {f"{name}.cpp": self._file(original) for original, name in self.names.items()}
        declared = [
            f"void {name}(char* const* buffers, int64_t begin, int64_t end);" for name in self.names.values()
        ]
        header = ["// The kernels that were generated for this step.", "#pragma once", "", "#include <cstdint>"]
        files["kernels.hpp"] = "\n".join(
            [*header, "", "namespace kernels {", "", *declared, "", "}  // namespace kernels", ""]
        )
        return files

    def _file(self, original: str) -> str:
        uses = self._uses[original]
        first = uses[0]
        buffers = [
            f"//   b[{at}]  {role}: {shape_text(value.shape)} {value.dtype}"
            for at, (role, value) in enumerate([*_ordered(first.inputs, "i"), *_ordered(first.outputs, "o")])
        ]
        called = dict.fromkeys(f"{op.origin.phase} of {op.origin.module or 'the loss'}" for op in uses)
        lines = [
            comment(f"// {', '.join(first.origin.operators) or 'elementwise'}"),
            "// Called by:",
            *(comment(f"//   {place}") for place in called),
            "// Buffers of the first call:",
            *buffers,
            '#include "kernels.hpp"',
            "",
            *(f'#include "../ops/{name}"' for name in self.headers),
            "",
            f"void kernels::{self.names[original]}{self._bodies[original]}",
            "",
        ]
        return "\n".join(lines)


def _ordered(values: dict[str, Value], letter: str) -> list[tuple[str, Value]]:
    return [(f"{letter}{at}", values[f"{letter}{at}"]) for at in range(len(values))]


def _plain(op: Op) -> list[str]:
    """The operators of a kernel without those that only copy."""
    plain = dict.fromkeys(name.removesuffix("_copy").strip("_") for name in op.origin.operators)
    return [name for name in plain if name not in ("clone", "expand", "view", "t", "transpose")][:MOST_NAMED]
