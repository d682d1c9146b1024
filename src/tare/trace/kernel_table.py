"""The kernel table: how often, how long, how launched, and which rates the kernels achieve.

FLOP/s and bytes/s come from the shapes of the operator that launched the kernel (counting.py). They are known only
where the profiler recorded shapes and the operator launched one kernel of the kind.
"""

import msgspec
import numpy as np

from tare.trace.counting import bytes_touched, flops
from tare.trace.intervals import contains, make
from tare.trace.names import is_matrix, is_transformed, uses_tensor_cores
from tare.trace.tables import COPY, KERNEL, Integers, Trace
from tare.trace.windows import main_device, windows


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """All launches of one name. Times in ns. `share` is of all device time. Grid, block, registers and shared
    memory are those of the longest launch. `counted` launches have known rates. `tensor_cores` is inferred from
    the name."""

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


def kernel_table(trace: Trace, counted: bool = False) -> list[Kernel]:
    """Kernels, copies and memsets by name, sorted by total time in descending order.

    `counted` restricts the table to the counted steps and the main device, as in the breakdown.
    """
    device = trace.device
    chosen = np.ones(len(device), dtype=bool)
    if counted:
        main = main_device(trace)
        window = windows(trace, main)
        chosen = contains(make(window[:, 1], window[:, 2]), device.start) & (device.device == main)
    device_time = max(int(device.duration[chosen].sum()), 1)
    counts = _counts(trace)
    names = np.unique(device.name[chosen])
    table = [_kernel(trace, np.flatnonzero(chosen & (device.name == code)), counts, device_time) for code in names]
    return sorted(table, key=lambda kernel: -kernel.total)


def _kernel(
    trace: Trace, rows: Integers, counts: tuple[dict[int, int], dict[int, int]], device_time: int
) -> Kernel:
    device = trace.device
    name = trace.name(device, int(rows[0]))
    total = int(device.duration[rows].sum())
    longest = int(rows[np.argmax(device.duration[rows])])
    is_kernel = int(device.kind[longest]) == KERNEL
    (flop_rate, flop_launches), (byte_rate, byte_launches) = (_rate(trace, rows, count) for count in counts)
    return Kernel(
        name=name,
        calls=len(rows),
        total=total,
        mean=total / len(rows),
        share=total / device_time,
        grid=_triple(device.grid[longest]) if is_kernel else None,
        block=_triple(device.block[longest]) if is_kernel else None,
        grids=len(np.unique(device.grid[rows], axis=0)) if is_kernel else 0,
        registers=_recorded(device.registers[longest]),
        shared=_recorded(device.shared[longest]),
        tensor_cores=uses_tensor_cores(name) if is_kernel else None,
        flops_per_s=flop_rate,
        bytes_per_s=byte_rate,
        counted=max(flop_launches, byte_launches),
    )


def _rate(trace: Trace, rows: Integers, counts: dict[int, int]) -> tuple[float | None, int]:
    """The rate over the launches with known counts, and the number of those."""
    known = [row for row in rows.tolist() if row in counts]
    time = int(trace.device.duration[known].sum()) if known else 0
    return (sum(counts[row] for row in known) / time * 1e9 if time else None), len(known)


def _counts(trace: Trace) -> tuple[dict[int, int], dict[int, int]]:
    """The FLOPs and the bytes of each row of device work, where they are known."""
    device, calls, operators = trace.device, trace.calls, trace.operators
    computed: dict[int, int] = {}
    copies = np.flatnonzero((device.kind == COPY) & (device.bytes > 0))
    moved = dict(zip(copies.tolist(), device.bytes[copies].tolist(), strict=True))
    launched: dict[int, list[int]] = {}
    for row in np.flatnonzero(device.kernels & (device.call >= 0)).tolist():
        operator = int(calls.operator[device.call[row]])
        while operator >= 0:
            launched.setdefault(operator, []).append(row)
            operator = int(operators.parent[operator])
    for operator, rows in launched.items():
        # A product may launch other kernels beside the one that multiplies. With several that multiply, the split
        # is unknown.
        products = [row for row in rows if is_matrix(trace.name(device, row))]
        single = len(products) == 1 and not is_transformed(trace.name(device, products[0]))
        if single and (count := flops(trace, operator)):
            computed[products[0]] = count
        if len(rows) == 1 and (count := bytes_touched(trace, operator)):
            moved[rows[0]] = count
    return computed, moved


def _triple(numbers: Integers) -> tuple[int, int, int] | None:
    x, y, z = (int(n) for n in numbers)
    return (x, y, z) if x >= 0 else None


def _recorded(number: int) -> int | None:
    return int(number) if number >= 0 else None
