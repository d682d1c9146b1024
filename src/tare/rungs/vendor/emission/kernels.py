"""The generated kernels of a plan, each in a file of its own."""

import re
from collections.abc import Iterable

from tare.rungs.vendor.emission.names import comment, shape_text
from tare.rungs.vendor.lowering.plan import Op, Value

FUNCTION = re.compile(r'^extern "C" void (\w+)(\(.*?^\}$)', re.MULTILINE | re.DOTALL)
INCLUDED = re.compile(r'^#include "([\w./]+)"$', re.MULTILINE)


class KernelFiles:
    def __init__(self, source: str, ops: Iterable[Op]) -> None:
        self._bodies = dict(FUNCTION.findall(source))
        # The headers that their source includes.
        self.headers = INCLUDED.findall(source)
        self._uses: dict[str, list[Op]] = {name: [] for name in self._bodies}
        for op in ops:
            if op.kind == "fused":
                self._uses[op.attributes["kernel"]].append(op)

    def __len__(self) -> int:
        return len(self._bodies)

    def files(self) -> dict[str, str]:
        """The text of each file in `kernels/`."""
        files = {f"{name}.cpp": self._file(name) for name in self._bodies}
        declared = [f"void {name}(char* const* buffers, int64_t begin, int64_t end);" for name in self._bodies]
        header = ["// The kernels that were generated for this step.", "#pragma once", "", "#include <cstdint>"]
        files["kernels.hpp"] = "\n".join(
            [*header, "", "namespace kernels {", "", *declared, "", "}  // namespace kernels", ""]
        )
        return files

    def _file(self, name: str) -> str:
        uses = self._uses[name]
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
            *(f'#include "../ops/{header}"' for header in self.headers),
            "",
            f"void kernels::{name}{self._bodies[name]}",
            "",
        ]
        return "\n".join(lines)


def _ordered(values: dict[str, Value], letter: str) -> list[tuple[str, Value]]:
    return [(f"{letter}{at}", values[f"{letter}{at}"]) for at in range(len(values))]
