"""The CUDA C++ of a kernel: a thread for each few elements, or threads that share a row and its reductions.

Threads go through a row in the same way in every pass, so each finds in memory and in its registers what it has
written itself. Sums are in double: on the GPUs of data centres a kernel still waits for memory, and the sum is as
exact as the CPU's whatever the number of threads. Its order is fixed, and no float is added atomically."""

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from tare.rungs.vendor.fusion.elementwise import EXPENSIVE, REDUCTIONS
from tare.rungs.vendor.fusion.kernel import FusedKernel
from tare.rungs.vendor.fusion.tensors import Gathered, Pointwise, Reduction, Shape, Source, Tensor, TensorView
from tare.rungs.vendor.fusion.writer import (
    COMPUTED,
    STORED,
    Function,
    KernelWriter,
    accumulator,
    loaded,
    stored,
    times,
)
from tare.rungs.vendor.lowering.plan import BYTES

# Threads of a block, and rows that neighbour each other in a block of columns.
THREADS, COLUMNS = 256, 32
# Packs of elements that a thread of a warp goes through before a row gets a block, and the most threads of one.
PACKS_OF_LANE, MOST_THREADS = 8, 512
# Results that a thread keeps for the next pass, in registers.
MOST_KEPT = 32
# Beyond this, places are computed in 64 bits.
MOST_SMALL = 2**31 - 2**20
# The strides over the rows and over a row, the offset, and the bytes of an element that may be loaded in a pack.
Access = tuple[Shape, Shape, int, int]


class CudaWriter(KernelWriter):
    def __init__(self, kernel: FusedKernel) -> None:
        super().__init__(kernel, walks_rows=not kernel.reduces)
        accesses = list(_accesses(kernel))
        self.small = all(_extent(kernel, access) < MOST_SMALL for access in accesses) and kernel.work < MOST_SMALL
        self.index = "int" if self.small else "int64_t"
        # Neighbours that a thread computes together.
        self.width = 1 if kernel.tiled else _width(kernel, accesses)
        # What is loaded before the elements of a pack are computed, and what is stored after it.
        self.loads: dict[tuple[str, str, str], str] = {}
        self.stores: dict[str, tuple[str, str, str]] = {}
        self.in_pack = False
        self.packs = prod(kernel.row) // self.width
        self.block, self.lanes, self.team = self._team()
        self.rows_of_block = self.block[0] * self.block[1] // self.lanes
        # The last block may have rows that do not exist: its threads take part in reductions, and store nothing.
        self.guarded = kernel.reduces and prod(kernel.rows) % self.rows_of_block > 0
        turns = -(-self.packs // self.lanes)
        self.turns = turns if self._keeps(turns) else 0

    def _team(self) -> tuple[tuple[int, int], int, str]:
        """The threads of a block, how many of them share a row, and how they reduce over it."""
        kernel = self.kernel
        if not kernel.reduces:
            return (min(THREADS, _power_of_two(max(prod(kernel.rows) // self.width, 32))), 1), 1, ""
        if kernel.tiled:
            height = min(MOST_THREADS // COLUMNS, _power_of_two(-(-self.packs // 8)))
            return (COLUMNS, height), height, f"over_columns<{height}>"
        few = prod(kernel.rows) < 1024
        if self.packs <= (2 if few else PACKS_OF_LANE) * 32:
            lanes = min(32, _power_of_two(self.packs))
            return (lanes, THREADS // lanes), lanes, f"over_lanes<{lanes}>"
        threads = min(MOST_THREADS, max(64, _power_of_two(-(-self.packs // 4))))
        return (threads, 1), threads, f"over_block<{threads}>"

    def _keeps(self, turns: int) -> bool:
        """Whether members that cost much and are needed in a later pass too are kept, each in an array."""
        later = self.kernel.needed_later() if self.kernel.reduces else []
        costly = [each for each in later if any(word in each.expression for word in EXPENSIVE)]
        if not costly or turns * self.width * len(costly) > MOST_KEPT:
            return False
        self.scratch = {member: f"s_{self.kernel.names[member]}" for member in costly}
        return True

    def write(self) -> Function:
        kernel = self.kernel
        if kernel.reduces:
            work = [line for each in kernel.passes for line in (*self._row_values(each), *self._full_pass(each))]
        else:
            work = self._loop_body(0, kernel.full_members(0, kernel.stored), [])
        rows = prod(kernel.rows) // (1 if kernel.reduces else self.width)
        blocks = -(-rows // self.rows_of_block)
        inputs = [(f"i{at}", tensor, "const ") for at, tensor in enumerate(kernel.inputs)]
        outputs = [(f"o{at}", tensor, "") for at, tensor in enumerate(kernel.outputs)]
        lines = [
            " {",
            *(
                f"  {const}{STORED[tensor.dtype]}* __restrict__ {name} = ({const}{STORED[tensor.dtype]}*)b[{at}];"
                for at, (name, tensor, const) in enumerate([*inputs, *outputs])
            ),
            *self._row_place(rows),
            *(f"  const {self.index} {name} = {self._base(*key)};" for key, name in self.bases.items()),
            *(
                f"  {COMPUTED[member.dtype]} {name}[{self.turns * self.width}];"
                for member, name in self.scratch.items()
            ),
            *(f"  {line}" for line in work),
            "}",
        ]
        threads = prod(self.block)
        head = f"TARE_KERNEL({{name}}, {threads}, {len(inputs) + len(outputs)})"
        return Function(head, "\n".join(lines), {"blocks": blocks, "block": list(self.block)})

    # The place of a thread

    def _row_place(self, rows: int) -> list[str]:
        """Which row a thread works on, and that row's place in the loops."""
        kernel, index = self.kernel, self.index
        threads_of_x, threads_of_y = self.block
        if not kernel.reduces:
            lines = [
                f"  const {index} row = ({index})blockIdx.x * {threads_of_x} + threadIdx.x;",
                f"  if (row >= {rows}) return;",
            ]
        elif kernel.tiled:
            lines = [
                f"  {index} row = ({index})blockIdx.x * {COLUMNS} + threadIdx.x;",
                "  const int lane = threadIdx.y;",
            ]
        else:
            lines = [
                f"  {index} row = ({index})blockIdx.x * {threads_of_y} + threadIdx.y;",
                "  const int lane = threadIdx.x;",
            ]
        if self.guarded:
            lines += [f"  const bool live = row < {rows};", f"  if (!live) row = {rows - 1};"]
        if kernel.tiled or self.team.startswith("over_block"):
            room = prod(self.block) if kernel.tiled else prod(self.block) // 32
            lines.append(f"  __shared__ double room[{room}];")
        sizes = [(f"k{axis}", size, 1) for axis, size in enumerate(kernel.rows)]
        if self.walks_rows and sizes:
            sizes[-1] = ("first", kernel.rows[-1] // self.width, self.width)
        return [*lines, *(f"  {line}" for line in self._divided("row", sizes, "rest"))]

    def _divided(self, number: str, sizes: Sequence[tuple[str, int, int]], rest: str) -> list[str]:
        """A number as places of several dimensions, each a multiple of a step, the last dimension fastest."""
        lines = [f"{'unsigned' if self.small else 'int64_t'} {rest} = {number};"]
        for at, (name, size, step) in reversed(list(enumerate(sizes))):
            part = f"{rest} % {size}" if at else rest
            lines.append(f"const {self.index} {name} = {part}{f' * {step}' if step > 1 else ''};")
            if at:
                lines.append(f"{rest} /= {size};")
        return [*lines, f"(void){rest};"]

    def _place(self, over_rows: Shape, over_row: Shape, offset: int) -> str:
        place = self._pack_place(over_rows, over_row, offset)
        inner = (over_rows if self.walks_rows else over_row)[-1:]
        return (
            f"{place} + {times('j', inner[0])}"
            if self.in_pack and self.width > 1 and inner and inner[0]
            else place
        )

    def _pack_place(self, over_rows: Shape, over_row: Shape, offset: int) -> str:
        """Without the place of an element in its pack."""
        terms = [self.bases.setdefault((over_rows, offset), f"p{len(self.bases)}")]
        return " + ".join([*terms, *(times(f"r{axis}", stride) for axis, stride in enumerate(over_row) if stride)])

    # Passes

    def _row_values(self, number: int) -> list[str]:
        """What has one element for each row: every thread of the row computes it, the first one stores it."""
        lines: list[str] = []
        for member in self.kernel.row_members(number):
            text = self._expression(member, False, lines, set(), number)
            lines.append(f"const {COMPUTED[member.dtype]} {self.kernel.names[member]} = {text};")
            lines += self._row_store(member)
        return lines

    def _row_store(self, member: Tensor) -> list[str]:
        if member not in self.kernel.stored:
            return []
        return [f"if (lane == 0{' && live' if self.guarded else ''}) {self._store(member)}"]

    def _full_pass(self, number: int) -> list[str]:
        kernel = self.kernel
        reductions = kernel.reductions(number)
        kept = kernel.full_members(number, [*kernel.stored, *self.scratch])
        if not reductions and not kept:
            return []
        sizes = [(f"r{axis}", size, 1) for axis, size in enumerate(kernel.row)]
        sizes[-1] = (sizes[-1][0], sizes[-1][1] // self.width, self.width)
        body = [*self._divided("e", sizes, "left"), *self._loop_body(number, kept, reductions)]
        return [
            *(line for member in reductions for line in self._start(member)),
            *self._over_row([f"  {line}" for line in body]),
            *(line for member in reductions for line in self._end(member)),
        ]

    def _over_row(self, body: list[str]) -> list[str]:
        """The loop of a thread over its packs of a row."""
        if not self.turns:
            return [f"for ({self.index} e = lane; e < {self.packs}; e += {self.lanes}) {{", *body, "}"]
        # Unrolled, so that an array with these places is in registers.
        ends = self.packs % self.lanes > 0
        return [
            "#pragma unroll",
            f"for (int turn = 0; turn < {self.turns}; ++turn) {{",
            f"  const int e = lane + turn * {self.lanes};",
            *([f"  if (e >= {self.packs}) continue;"] if ends else []),
            *body,
            "}",
        ]

    def _loop_body(self, number: int, kept: Sequence[Tensor], reductions: Sequence[Reduction]) -> list[str]:
        """What is done for the elements of one pack."""
        self.loads, self.stores, self.in_pack = {}, {}, True
        body: list[str] = []
        known: set[Tensor] = set()
        for member in kept:
            name = self._full_value(member, number, body, known)
            if member in self.scratch:
                body.append(f"{self._scratch_element(member)} = {name};")
            if member in self.kernel.stored:
                body.append(self._element_store(member))
        for member in reductions:
            x = self._operand(member.operand, True, body, known, number)
            total = f"a_{self.kernel.names[member]}"
            body.append(f"{total} = {REDUCTIONS[member.operation].step.format(acc=total, x=x)};")
        self.in_pack = False
        if self.width > 1:
            body = [
                "#pragma unroll",
                f"for (int j = 0; j < {self.width}; ++j) {{",
                *(f"  {line}" for line in body),
                "}",
            ]
        loads = [
            f"const Pack<{kind}, {self.width}> {name} = load_pack<{self.width}>({pointer} + {place});"
            for (pointer, kind, place), name in self.loads.items()
        ]
        packs = [f"Pack<{kind}, {self.width}> {name};" for name, (kind, _, _) in self.stores.items()]
        guard = "if (live) " if self.guarded else ""
        ends = [
            f"{guard}store_pack({pointer} + {place}, {name});" for name, (_, pointer, place) in self.stores.items()
        ]
        return [*loads, *packs, *body, *ends]

    def _start(self, member: Reduction) -> list[str]:
        reduction = REDUCTIONS[member.operation]
        kind, start = accumulator(member.operation, member.dtype, reduction.kind, reduction.start)
        return [f"{kind} a_{self.kernel.names[member]} = {start};"]

    def _end(self, member: Reduction) -> list[str]:
        name, step = self.kernel.names[member], REDUCTIONS[member.operation].step
        join = f"[](auto x, auto y) {{ return {step.format(acc='x', x='y')}; }}"
        room = "" if self.team.startswith("over_lanes") else "room, "
        total = f"{self.team}(a_{name}, {room}{join})"
        return [
            f"const {COMPUTED[member.dtype]} {name} = {COMPUTED[member.dtype]}({total});",
            *self._row_store(member),
        ]

    # Values

    def _load(self, pointer: str, dtype: str, over_rows: Shape, over_row: Shape, offset: int) -> str:
        if not self.in_pack or not self._packed(over_rows, over_row, offset):
            return super()._load(pointer, dtype, over_rows, over_row, offset)
        key = pointer, STORED[dtype], self._pack_place(over_rows, over_row, offset)
        return loaded(self.loads.setdefault(key, f"q{len(self.loads)}") + ".at", dtype, "j")

    def _element_store(self, member: Tensor) -> str:
        over_rows, over_row, offset = self.kernel.own_strides(member)
        if not self._packed(over_rows, over_row, offset):
            return ("if (live) " if self.guarded else "") + self._store(member)
        pointer = f"o{self.kernel.outputs.index(member)}"
        pack = f"w{len(self.stores)}"
        self.stores[pack] = STORED[member.dtype], pointer, self._pack_place(over_rows, over_row, offset)
        return f"{pack}.at[j] = {stored(self.kernel.names[member], member.dtype)};"

    def _packed(self, over_rows: Shape, over_row: Shape, offset: int) -> bool:
        inner = (over_rows if self.walks_rows else over_row)[-1:]
        return (
            self.width > 1 and inner == (1,) and _aligned(self.walks_rows, over_rows, over_row, offset, self.width)
        )

    def _scratch_element(self, member: Tensor) -> str:
        place = f"turn * {self.width} + j" if self.width > 1 else "turn"
        return f"{self.scratch[member]}[{place}]"


def _accesses(kernel: FusedKernel) -> Iterator[Access]:
    for member in kernel.group.members:
        if member in kernel.stored:
            yield (*kernel.own_strides(member), BYTES[member.dtype])
        if isinstance(member, Reduction):
            yield from _reads(kernel, (member.operand,), True)
        elif isinstance(member, Pointwise):
            yield from _reads(kernel, member.operands, kernel.is_full(member))


def _reads(kernel: FusedKernel, operands: Iterable[Source], full: bool) -> Iterator[Access]:
    for operand in operands:
        if isinstance(operand, TensorView) and operand.tensor not in kernel.names:
            yield (*kernel.strides(operand, full), operand.offset, BYTES[operand.dtype])
        elif isinstance(operand, Gathered):
            yield (*kernel.strides(operand.view, full), operand.view.offset, 0)
            yield from _reads(kernel, (index for index, _, _ in operand.indices), full)


def _extent(kernel: FusedKernel, access: Access) -> int:
    """More than any place that an access computes."""
    over_rows, over_row, offset, _ = access
    pairs = zip((*over_rows, *over_row), (*kernel.rows, *kernel.row), strict=True)
    return abs(offset) + sum(abs(stride) * size for stride, size in pairs)


def _width(kernel: FusedKernel, accesses: Sequence[Access]) -> int:
    """How many neighbours along the innermost loop every access can take at once: 16 bytes of most."""
    inner = (kernel.row if kernel.reduces else kernel.rows)[-1:]
    largest = {2: 8, 1: 4, 4: 4, 8: 2}[min((size for *_, size in accesses if size > 1), default=4)]
    for width in (8, 4, 2):
        if (
            width <= largest
            and inner
            and inner[0] % width == 0
            and all(_takes(kernel, each, width) for each in accesses)
        ):
            return width
    return 1


def _takes(kernel: FusedKernel, access: Access, width: int) -> bool:
    over_rows, over_row, offset, size = access
    walks_rows = not kernel.reduces
    inner = (over_rows if walks_rows else over_row)[-1:]
    aligned = size == 0 or _aligned(walks_rows, over_rows, over_row, offset, width)
    return inner == (0,) or (inner == (1,) and aligned)


def _aligned(walks_rows: bool, over_rows: Shape, over_row: Shape, offset: int, width: int) -> bool:
    """Whether the first element of every pack has a place that is a multiple of the width."""
    outer = (*over_rows[:-1], *over_row) if walks_rows else (*over_rows, *over_row[:-1])
    return offset % width == 0 and all(stride % width == 0 for stride in outer)


def _power_of_two(number: int) -> int:
    """The smallest that is not smaller."""
    return 1 << max(number - 1, 0).bit_length()
