"""The table of kernels: how often, how long, how launched, and what they achieve where that can be counted.

FLOP/s and bytes/s are counted from the shapes of the operator that launched the kernel (counting.py), so only
where the profiler recorded shapes and the operator launched one kernel of the kind; tensor cores are told by the
kernel's name.
"""

import msgspec
import numpy as np

from tare.errors import unknown
from tare.trace.counting import flops, touched
from tare.trace.intervals import contains, make
from tare.trace.kernel_names import matrix, tensor_cores, transformed
from tare.trace.tables import COPY, KERNEL, Integers, Trace
from tare.trace.windows import main_device, windows


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """One name. Times in ns; `share` is of all device time; grid and block are those of its longest launch.

    `tensor_cores` is told by the name: None where that says nothing.
    """

    name: str
    calls: int
    total: int
    mean: float
    share: float
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    grids: int
    registers: int | None
    shared: int | None
    tensor_cores: bool | None
    flops_per_s: float | None
    bytes_per_s: float | None
    counted: int


COLUMNS = tuple(name for name in Kernel.__struct_fields__ if name not in ("grid", "block"))


def kernel_table(trace: Trace, sort: str = "total", counted: bool = False) -> list[Kernel]:
    """Kernels, copies and memsets by name, sorted by any column, greatest first.

    Of the whole trace; `counted` of the steps that count, on the main device, as the breakdown has it."""
    if sort not in COLUMNS:
        raise unknown("column", sort, COLUMNS, "the table of kernels")
    device = trace.device
    chosen = np.ones(len(device), dtype=bool)
    if counted:
        main = main_device(trace)
        window = windows(trace, main)
        chosen = contains(make(window[:, 1], window[:, 2]), device.start) & (device.device == main)
    whole = max(int(device.duration[chosen].sum()), 1)
    counts = _counted(trace)
    found = []
    for code in np.unique(device.name[chosen]):
        rows = np.flatnonzero(chosen & (device.name == code))
        found.append(_kernel(trace, rows, counts, whole))
    if sort == "name":
        return sorted(found, key=lambda kernel: kernel.name)
    return sorted(found, key=lambda kernel: -(getattr(kernel, sort) or 0))


def _kernel(trace: Trace, rows: Integers, counts: tuple[dict[int, int], dict[int, int]], whole: int) -> Kernel:
    device = trace.device
    name = trace.name(device, int(rows[0]))
    taken = int(device.duration[rows].sum())
    longest = int(rows[np.argmax(device.duration[rows])])
    is_kernel = int(device.kind[longest]) == KERNEL
    rates, counted = zip(*(_rate(trace, rows, one) for one in counts), strict=True)
    return Kernel(
        name=name,
        calls=len(rows),
        total=taken,
        mean=taken / len(rows),
        share=taken / whole,
        grid=_triple(device.grid[longest]) if is_kernel else None,
        block=_triple(device.block[longest]) if is_kernel else None,
        grids=len(np.unique(device.grid[rows], axis=0)) if is_kernel else 0,
        registers=_known(device.registers[longest]),
        shared=_known(device.shared[longest]),
        tensor_cores=tensor_cores(name) if is_kernel else None,
        flops_per_s=rates[0],
        bytes_per_s=rates[1],
        counted=max(counted),
    )


def _rate(trace: Trace, rows: Integers, counts: dict[int, int]) -> tuple[float | None, int]:
    """Over the launches that could be counted, and how many those are."""
    known = [row for row in rows.tolist() if row in counts]
    taken = int(trace.device.duration[known].sum()) if known else 0
    return (sum(counts[row] for row in known) / taken * 1e9 if taken else None), len(known)


def _counted(trace: Trace) -> tuple[dict[int, int], dict[int, int]]:
    """FLOPs and bytes of each row of device work, where they are known."""
    device, calls, table = trace.device, trace.calls, trace.operators
    work: dict[int, int] = {}
    moved = {
        int(row): int(device.bytes[row]) for row in np.flatnonzero((device.kind == COPY) & (device.bytes > 0))
    }
    launched: dict[int, list[int]] = {}
    for row in np.flatnonzero(device.kernels & (device.call >= 0)).tolist():
        operator = int(calls.operator[device.call[row]])
        while operator >= 0:
            launched.setdefault(operator, []).append(row)
            operator = int(table.parent[operator])
    for operator, rows in launched.items():
        # A product may need kernels beside the one that multiplies; with several that multiply nobody knows the
        # split.
        multiplying = [row for row in rows if matrix(trace.name(device, row))]
        alone = len(multiplying) == 1 and not transformed(trace.name(device, multiplying[0]))
        if alone and (amount := flops(trace, operator)):
            work[multiplying[0]] = amount
        if len(rows) == 1 and (amount := touched(trace, operator)):
            moved[rows[0]] = amount
    return work, moved


def _triple(numbers: Integers) -> tuple[int, int, int] | None:
    x, y, z = (int(n) for n in numbers)
    return (x, y, z) if x >= 0 else None


def _known(number: int) -> int | None:
    return int(number) if number >= 0 else None
