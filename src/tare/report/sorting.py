"""The columns by which the tables of operators and kernels are sorted: those that are printed, by the name that
stands over them, and the other fields of their rows."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

from tare.errors import unknown
from tare.trace.kernel_table import Kernel
from tare.trace.operator_table import Operator

Row = TypeVar("Row", Operator, Kernel)
Key = Callable[[Any], Any]
NAME = "name"


def check_column(sort: str | None) -> None:
    if sort is not None and _spelt(sort) not in COLUMNS[Operator] | COLUMNS[Kernel]:
        raise unknown("column", sort, COLUMNS[Operator] | COLUMNS[Kernel], "the tables of operators and kernels")


def sorted_by(rows: Sequence[Row], sort: str | None) -> Sequence[Row]:
    """By the column, the greatest first and names from A to Z, where the table has it."""
    key = COLUMNS[type(rows[0])].get(_spelt(sort)) if sort is not None and rows else None
    if key is None:
        return rows
    return sorted(rows, key=key, reverse=not isinstance(key(rows[0]), str))


def memory(one: Operator) -> int:
    """What the column of that name shows: the device's memory, or the host's where it is all there is."""
    return one.device_memory_self or one.host_memory_self


def _spelt(column: str) -> str:
    """`host self` as it is printed, `host_self` as it is in JSON."""
    return column.strip().lower().replace(" ", "_").replace("-", "_")


def _field(name: str) -> Key:
    return lambda row: getattr(row, name) or 0


def _size(name: str) -> Key:
    """Grids and blocks by how many threads or blocks they hold."""
    return lambda row: prod(getattr(row, name) or (0,))


def _name(row: Any) -> str:
    return str(row.name)


def _achieved(one: Kernel) -> tuple[float, float]:
    """FLOP/s and bytes/s do not compare: first those of which operations are counted, then the others."""
    return one.flops_per_s or 0.0, one.bytes_per_s or 0.0


def _cores(one: Kernel) -> int:
    """Yes, no, unknown."""
    return {True: 2, False: 1, None: 0}[one.tensor_cores]


COLUMNS: dict[type, dict[str, Key]] = {
    Operator: {name: _field(name) for name in Operator.__struct_fields__}
    | {NAME: _name, "operator": _name, "memory": memory},
    Kernel: {name: _field(name) for name in Kernel.__struct_fields__}
    | {NAME: _name, "kernel": _name, "time": _field("total"), "grid": _size("grid"), "block": _size("block")}
    | {"regs": _field("registers"), "smem": _field("shared"), "achieved": _achieved}
    | {"tensor": _cores, "tensor_cores": _cores},
}
