"""The kernel table: how often, how long, how launched, and which rates the kernels achieve.

FLOP/s and bytes/s come from the shapes of the operator that launched the kernel (counting.py). They are known only
where the profiler recorded shapes and the operator launched one kernel of the kind.
"""

from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from tare.trace.counting import bytes_touched, flops, is_counted
from tare.trace.names import is_matrix, is_transformed, uses_tensor_cores
from tare.trace.spans import pick, rows_by_value
from tare.trace.tables import KERNEL, Integers, Trace
from tare.trace.windows import counted_work

Floats = npt.NDArray[np.float64]


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
    rows = counted_work(trace) if counted else np.arange(len(device))
    duration = device.duration
    device_time = max(int(duration[rows].sum()), 1)
    counts = _counts(trace)
    by_name = rows_by_value(device.name[rows]).values()
    table = [_kernel(trace, rows[at], duration, counts, device_time) for at in by_name]
    return sorted(table, key=lambda kernel: -kernel.total)


def _kernel(
    trace: Trace, rows: Integers, duration: Integers, counts: tuple[Floats, Floats], device_time: int
) -> Kernel:
    device = trace.device
    name = trace.name(device, int(rows[0]))
    total = int(duration[rows].sum())
    longest = int(rows[np.argmax(duration[rows])])
    is_kernel = int(device.kind[longest]) == KERNEL
    known = [rows[count[rows] > 0] for count in counts]
    times = [int(duration[chosen].sum()) for chosen in known]
    flop_rate, byte_rate = (
        float(count[chosen].sum()) / time * 1e9 if time else None
        for count, chosen, time in zip(counts, known, times, strict=True)
    )
    return Kernel(
        name=name,
        calls=len(rows),
        total=total,
        mean=total / len(rows),
        share=total / device_time,
        grid=_triple(device.grid[longest]) if is_kernel else None,
        block=_triple(device.block[longest]) if is_kernel else None,
        grids=_different(device.grid[rows]) if is_kernel else 0,
        registers=_recorded(device.registers[longest]),
        shared=_recorded(device.shared[longest]),
        tensor_cores=uses_tensor_cores(name) if is_kernel else None,
        flops_per_s=flop_rate,
        bytes_per_s=byte_rate,
        counted=max(map(len, known)),
    )


def _counts(trace: Trace) -> tuple[Floats, Floats]:
    """The FLOPs and the bytes of each row of device work; 0 where they are unknown."""
    device = trace.device
    computed, moved = np.zeros(len(device)), np.where(device.copies, np.maximum(device.bytes, 0.0), 0.0)
    owners, kernels = _launched(trace)
    operators, first, group = np.unique(owners, return_index=True, return_inverse=True)
    in_turn = np.argsort(first)
    # A product may launch other kernels beside the one that multiplies. With several that multiply, the split is
    # unknown.
    products = np.flatnonzero(trace.matching(device, is_matrix)[kernels])
    alone = np.bincount(group[products], minlength=len(operators)) == 1
    product = np.zeros(len(operators), dtype=np.int64)
    product[group[products]] = kernels[products]
    alone &= ~trace.matching(device, is_transformed)[product]
    only = np.bincount(group, minlength=len(operators)) == 1
    for chosen, kernel, count, counts in (
        (alone, product, flops, computed),
        (only, kernels[first], bytes_touched, moved),
    ):
        # Of several operators around a kernel the last one counts.
        at = in_turn[chosen[in_turn]]
        known = _once_each(trace, operators[at], count)
        counts[kernel[at[known > 0]]] = known[known > 0]
    return computed, moved


def _once_each(trace: Trace, rows: Integers, count: Callable[[Trace, int], int | None]) -> Floats:
    """The count of each operator, computed once for all with the same name and inputs; 0 where it is unknown."""
    table = trace.operators
    kinds = table.name[rows] * (len(trace.inputs) + 1) + table.inputs[rows]
    _, first, kind = np.unique(kinds, return_index=True, return_inverse=True)
    return np.array([count(trace, row) or 0 for row in rows[first].tolist()], dtype=np.float64)[kind]


def _launched(trace: Trace) -> tuple[Integers, Integers]:
    """Each operator that has counts with each kernel under it, by kernel, inner operators first."""
    operators, device = trace.operators, trace.device
    counted = trace.matching(operators, is_counted)
    nearest = operators.inherit(np.where(counted, np.arange(len(operators)), -1))
    nearest = np.where(np.append(counted, False)[nearest], nearest, -1)
    kernels = np.flatnonzero(device.kernels & (device.call >= 0))
    owner = pick(nearest, pick(trace.calls.operator, device.call[kernels]))
    pairs = []
    level = 0
    while (owner >= 0).any():
        kernels, owner = kernels[owner >= 0], owner[owner >= 0]
        pairs.append((owner, kernels, np.full(len(kernels), level)))
        owner, level = pick(nearest, pick(operators.parent, owner)), level + 1
    if not pairs:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    owners, rows, levels = (np.concatenate(column) for column in zip(*pairs, strict=True))
    at = np.lexsort((levels, rows))
    return owners[at], rows[at]


def _different(triples: Integers) -> int:
    """How many of them differ. np.unique(axis=0) is far slower."""
    ordered = triples[np.lexsort(triples.T)]
    return 1 + int((ordered[1:] != ordered[:-1]).any(axis=1).sum())


def _triple(numbers: Integers) -> tuple[int, int, int] | None:
    x, y, z = (int(n) for n in numbers)
    return (x, y, z) if x >= 0 else None


def _recorded(number: int) -> int | None:
    return int(number) if number >= 0 else None
