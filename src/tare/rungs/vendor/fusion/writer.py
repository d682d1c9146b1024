"""What the text of a kernel has in common in every language: places in memory, literals, expressions."""

from abc import ABC, abstractmethod
from math import isinf, isnan
from typing import NamedTuple

from tare.rungs.vendor.fusion.kernel import FusedKernel
from tare.rungs.vendor.fusion.tensors import Constant, Gathered, Pointwise, Shape, Source, Tensor

# Names of types, as cpu/expressions.hpp and cuda/expressions.cuh define the half types.
STORED = {
    "f32": "float", "f64": "double", "bf16": "bfloat16_", "f16": "half_", "i64": "int64_t", "u8": "uint8_t",
}  # fmt: skip
COMPUTED = {"f32": "float", "f64": "double", "bf16": "float", "f16": "float", "i64": "int64_t", "u8": "bool"}
INTEGER_STARTS = {"max": "INT64_MIN", "min": "INT64_MAX"}


class Function(NamedTuple):
    """A kernel without its name, which is part of the head, and how a plan calls it."""

    head: str
    body: str
    attributes: dict[str, object]


class KernelWriter(ABC):
    """The values of a kernel, as variables of C++. A subclass writes the loops around them."""

    def __init__(self, kernel: FusedKernel, walks_rows: bool) -> None:
        self.kernel = kernel
        # Whether the innermost loop goes over `j`, elements of the rows' last dimension from `first` on.
        self.walks_rows = walks_rows
        # The arrays of members whose results a later pass needs again.
        self.scratch: dict[Tensor, str] = {}
        # Where an access begins in a row, by its strides over the rows and its offset.
        self.bases: dict[tuple[Shape, int], str] = {}

    @abstractmethod
    def write(self) -> Function:
        """The whole kernel."""

    @abstractmethod
    def _scratch_element(self, member: Tensor) -> str:
        """Where a kept result of this element is."""

    def _base(self, over_rows: Shape, offset: int) -> str:
        names = [f"k{axis}" for axis in range(len(over_rows))]
        if self.walks_rows and names:
            names[-1] = "first"
        terms = [str(offset)] if offset else []
        terms += [times(name, stride) for name, stride in zip(names, over_rows, strict=True) if stride]
        return " + ".join(terms) or "0"

    def _place(self, over_rows: Shape, over_row: Shape, offset: int) -> str:
        """The index of an element in memory, within the innermost loop."""
        terms = [self.bases.setdefault((over_rows, offset), f"p{len(self.bases)}")]
        if self.walks_rows and over_rows and over_rows[-1]:
            terms.append(times("j", over_rows[-1]))
        terms += [times(f"r{axis}", stride) for axis, stride in enumerate(over_row) if stride]
        return " + ".join(terms)

    def _row_variable(self, member: Tensor) -> str:
        """The value of a member that has one element for each row."""
        return self.kernel.names[member]

    def _load(self, pointer: str, dtype: str, over_rows: Shape, over_row: Shape, offset: int) -> str:
        return loaded(pointer, dtype, self._place(over_rows, over_row, offset))

    def _full_value(self, member: Tensor, number: int, body: list[str], known: set[Tensor]) -> str:
        """The variable that holds a member in this loop."""
        name = self.kernel.names[member]
        if member in known:
            return name
        known.add(member)
        earlier = self.kernel.level[member] < number
        if earlier and member in self.scratch:
            text = self._scratch_element(member)
        elif earlier and member in self.kernel.stored:
            pointer = f"o{self.kernel.outputs.index(member)}"
            text = self._load(pointer, member.dtype, *self.kernel.own_strides(member))
        else:
            assert isinstance(member, Pointwise)
            text = self._expression(member, True, body, known, number)
        body.append(f"const {COMPUTED[member.dtype]} {name} = {text};")
        return name

    def _expression(self, member: Pointwise, full: bool, body: list[str], known: set[Tensor], number: int) -> str:
        return member.expression.format(
            *(self._operand(each, full, body, known, number) for each in member.operands)
        )

    def _operand(self, operand: Source, full: bool, body: list[str], known: set[Tensor], number: int) -> str:
        kernel = self.kernel
        if isinstance(operand, Constant):
            return literal(operand)
        if isinstance(operand, Gathered):
            place = self._place(*kernel.strides(operand.view, full), operand.view.offset)
            for index, stride, size in operand.indices:
                place += f" + place_({self._operand(index, full, body, known, number)}, {size}) * {stride}"
            return loaded(f"i{kernel.input(operand.view.tensor)}", operand.dtype, place)
        if operand.tensor not in kernel.names:
            pointer = f"i{kernel.input(operand.tensor)}"
            return self._load(pointer, operand.dtype, *kernel.strides(operand, full), operand.offset)
        if kernel.is_full(operand.tensor):
            return self._full_value(operand.tensor, number, body, known)
        return self._row_variable(operand.tensor)

    def _store(self, member: Tensor) -> str:
        full = self.kernel.is_full(member)
        value = self.kernel.names[member] if full else self._row_variable(member)
        place = self._place(*self.kernel.own_strides(member))
        return f"o{self.kernel.outputs.index(member)}[{place}] = {stored(value, member.dtype)};"


def loaded(pointer: str, dtype: str, place: str) -> str:
    if dtype == "u8":
        return f"({pointer}[{place}] != 0)"
    return f"float_({pointer}[{place}])" if dtype in ("bf16", "f16") else f"{pointer}[{place}]"


def stored(value: str, dtype: str) -> str:
    return f"rounded_<{STORED[dtype]}>({value})" if dtype in ("bf16", "f16") else value


def times(name: str, stride: int) -> str:
    return name if stride == 1 else f"{name} * {stride}"


def literal(constant: Constant) -> str:
    if constant.dtype == "u8":
        return "true" if constant.number else "false"
    if constant.dtype == "i64":
        return f"int64_t({int(constant.number)}LL)"
    number, suffix = float(constant.number), "" if constant.dtype == "f64" else "f"
    if isnan(number):
        return "NAN"
    if isinf(number):
        return "INFINITY" if number > 0 else "(-INFINITY)"
    return f"({number!r}{suffix})"


def accumulator(operation: str, dtype: str, kind: str, start: str) -> tuple[str, str]:
    """The type of what a reduction adds up, and where it begins."""
    if dtype == "i64":
        return "int64_t", INTEGER_STARTS.get(operation, start)
    return "double" if dtype == "f64" else kind, start
