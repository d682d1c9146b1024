"""The C++ of a kernel on a CPU: loops that the compiler vectorises, over a range of rows for each thread."""

from collections.abc import Sequence
from math import prod

from tare.rungs.vendor.fusion.elementwise import EXPENSIVE, REDUCTIONS
from tare.rungs.vendor.fusion.kernel import FusedKernel
from tare.rungs.vendor.fusion.tensors import Reduction, Tensor
from tare.rungs.vendor.fusion.writer import COMPUTED, STORED, Function, KernelWriter, accumulator, times

# Columns that are summed up side by side, and elements of one piece of work where nothing is summed.
TILE, CHUNK = 64, 4096
# The longest row whose results a pass keeps for the next one.
LONGEST_KEPT_ROW = 8192


class CpuWriter(KernelWriter):
    """The rows of a function are shared out between its callers."""

    def __init__(self, kernel: FusedKernel) -> None:
        # The innermost loop goes over the rows' last dimension in tiles of columns, and where nothing is reduced.
        super().__init__(kernel, walks_rows=kernel.tiled or not kernel.reduces)
        self.scratch = self._kept_results()

    def _kept_results(self) -> dict[Tensor, str]:
        """The arrays of members that cost much and are needed in a later pass too."""
        kernel = self.kernel
        if not kernel.reduces or kernel.tiled or prod(kernel.row) > LONGEST_KEPT_ROW:
            return {}
        costly = [each for each in kernel.needed_later() if any(word in each.expression for word in EXPENSIVE)]
        return {member: f"s_{kernel.names[member]}" for member in costly}

    def write(self) -> Function:
        kernel = self.kernel
        passes = [
            line for number in kernel.passes for line in (*self._row_values(number), *self._full_pass(number))
        ]
        rows, place = self._row_place()
        inputs = [(f"i{at}", tensor, "const ", "") for at, tensor in enumerate(kernel.inputs)]
        outputs = [(f"o{at}", tensor, "", "__restrict ") for at, tensor in enumerate(kernel.outputs)]
        lines = [
            "(char* const* b, int64_t begin, int64_t end) {",
            *(
                f"  {const}{STORED[tensor.dtype]}* {restrict}{name} = ({const}{STORED[tensor.dtype]}*)b[{at}];"
                for at, (name, tensor, const, restrict) in enumerate([*inputs, *outputs])
            ),
            *(f"  {COMPUTED[member.dtype]} {name}[{prod(kernel.row)}];" for member, name in self.scratch.items()),
            "  for (int64_t row = begin; row < end; ++row) {",
            *place,
            *(f"    const int64_t {name} = {self._base(*key)};" for key, name in self.bases.items()),
            *passes,
            "  }",
            "}",
        ]
        return Function('extern "C" void {name}', "\n".join(lines), {"rows": rows, "work": kernel.work})

    def _row_place(self) -> tuple[int, list[str]]:
        """The number of rows, and what tells a row's place in the loops."""
        lines, rows = ["    int64_t rest = row;"], 1
        outer = list(enumerate(self.kernel.rows))
        if self.walks_rows:
            _, size = outer.pop() if outer else (0, 1)
            step = TILE if self.kernel.tiled else CHUNK
            pieces = -(-size // step)
            rows *= pieces
            lines += [
                f"    const int64_t first = rest % {pieces} * {step}; rest /= {pieces};",
                f"    const int64_t count = {size} - first < {step} ? {size} - first : {step};",
            ]
        for axis, size in reversed(outer):
            rows *= size
            lines.append(f"    const int64_t k{axis} = rest % {size}; rest /= {size};")
        return rows, [*lines, "    (void)rest;"]

    # Passes

    def _row_values(self, number: int) -> list[str]:
        """What has one element for each row."""
        members = self.kernel.row_members(number)
        body: list[str] = []
        for member in members:
            name, text = self.kernel.names[member], self._expression(member, False, body, set(), number)
            body.append(
                f"{name}[j] = {text};" if self.kernel.tiled else f"const {COMPUTED[member.dtype]} {name} = {text};"
            )
            if member in self.kernel.stored:
                body.append(self._store(member))
        if not self.kernel.tiled or not members:
            return [f"    {line}" for line in body]
        arrays = [f"    {COMPUTED[member.dtype]} {self.kernel.names[member]}[{TILE}];" for member in members]
        return [*arrays, "    for (int64_t j = 0; j < count; ++j) {", *(f"      {line}" for line in body), "    }"]

    def _full_pass(self, number: int) -> list[str]:
        """The loop over a row: what is stored or kept, and reductions."""
        kernel = self.kernel
        reductions = kernel.reductions(number)
        kept = kernel.full_members(number, [*kernel.stored, *self.scratch])
        if not reductions and not kept:
            return []
        body: list[str] = []
        known: set[Tensor] = set()
        for member in kept:
            name = self._full_value(member, number, body, known)
            body.append(
                self._store(member) if member in kernel.stored else f"{self._scratch_element(member)} = {name};"
            )
        for member in reductions:
            x = self._operand(member.operand, True, body, known, number)
            total = f"a_{kernel.names[member]}{'[j]' if kernel.tiled else ''}"
            body.append(f"{total} = {REDUCTIONS[member.operation].step.format(acc=total, x=x)};")
        before = [line for member in reductions for line in self._start(member)]
        after = [line for member in reductions for line in self._end(member)]
        return [*before, *self._nested(body, reductions), *after]

    def _start(self, member: Reduction) -> list[str]:
        reduction = REDUCTIONS[member.operation]
        kind, start = accumulator(member.operation, member.dtype, reduction.kind, reduction.start)
        name = f"a_{self.kernel.names[member]}"
        if not self.kernel.tiled:
            return [f"    {kind} {name} = {start};"]
        return [f"    {kind} {name}[{TILE}]; for (int64_t j = 0; j < {TILE}; ++j) {name}[j] = {start};"]

    def _end(self, member: Reduction) -> list[str]:
        kind, name = COMPUTED[member.dtype], self.kernel.names[member]
        store = [self._store(member)] if member in self.kernel.stored else []
        if not self.kernel.tiled:
            return [f"    const {kind} {name} = {kind}(a_{name});", *(f"    {line}" for line in store)]
        each = " ".join([f"{name}[j] = {kind}(a_{name}[j]);", *store])
        return [f"    {kind} {name}[{TILE}]; for (int64_t j = 0; j < count; ++j) {{ {each} }}"]

    def _nested(self, body: list[str], reductions: Sequence[Reduction]) -> list[str]:
        """The loops over a row around what they do for an element."""
        loops = [(f"r{axis}", str(size)) for axis, size in enumerate(self.kernel.row)]
        if self.walks_rows:
            loops.append(("j", "count"))
        lines, depth = [], 2
        for at, (name, size) in enumerate(loops):
            if at == len(loops) - 1:
                lines += [f"{'  ' * depth}{pragma}" for pragma in self._pragma(reductions)]
            lines.append(f"{'  ' * depth}for (int64_t {name} = 0; {name} < {size}; ++{name}) {{")
            depth += 1
        lines += [f"{'  ' * depth}{line}" for line in body]
        return [*lines, *(f"{'  ' * level}}}" for level in reversed(range(2, depth)))]

    def _pragma(self, reductions: Sequence[Reduction]) -> list[str]:
        """Elements of different places are independent, and a compiler may choose the order of a sum."""
        if self.kernel.tiled or not reductions:
            return ["#pragma omp simd"]
        if all(member.operation == "sum" for member in reductions):
            totals = ", ".join(f"a_{self.kernel.names[member]}" for member in reductions)
            return [f"#pragma omp simd reduction(+ : {totals})"]
        return []

    def _row_variable(self, member: Tensor) -> str:
        return self.kernel.names[member] + ("[j]" if self.kernel.tiled else "")

    def _scratch_element(self, member: Tensor) -> str:
        terms, stride = [], 1
        for axis in reversed(range(len(self.kernel.row))):
            terms.append(times(f"r{axis}", stride))
            stride *= self.kernel.row[axis]
        return f"{self.scratch[member]}[{' + '.join(terms)}]"
