"""Findings, the tables of operators and kernels, and memory, for the terminal."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tare.errors import unknown
from tare.findings.diagnosis import Diagnosis
from tare.findings.finding import Finding
from tare.report.numbers import seconds, several, short_size, size
from tare.report.plot import sparkline
from tare.report.table import FittingTable, Sized
from tare.system.text import beginning, ending
from tare.trace.kernel_table import Kernel
from tare.trace.memory import HOST, MemoryUse
from tare.trace.names import short_name
from tare.trace.operator_table import Operator

STYLE = {"high": "bold red", "medium": "yellow", "low": "dim"}
BOUNDS = {"": "", "at most": "≤ ", "at least": "≥ "}
MAX_ROWS = 15
MAX_LOCATIONS, LOCATION_WIDTH = 3, 68
MAX_OWNERS = 5
NO_MEMORY = "memory: the trace has no allocations in it (profile_memory=True records them)"
UNKNOWN_OWNER = "  no trace says whose memory that is: tare explain WORKLOAD knows its own weights by module"
TENSOR_CORES = {True: "yes", False: "no", None: "-"}
Row = TypeVar("Row", Operator, Kernel)
Heads = tuple[str, ...]


def diagnosis_view(diagnosis: Diagnosis, rows: int = MAX_ROWS, sort: str | None = None) -> RenderableType:
    """`sort` is a column of the table of operators or of kernels, or of both."""
    check_column(sort)
    steps = diagnosis.recorded_steps
    parts: list[RenderableType] = [findings_view(diagnosis), Text("")]
    parts += [operators_view(sorted_by(diagnosis.operators, sort), steps, rows), Text("")]
    if diagnosis.kernels:
        parts += [kernels_view(sorted_by(diagnosis.kernels, sort), steps, rows), Text("")]
    parts.append(memory_view(diagnosis.memory) if diagnosis.memory else Text(NO_MEMORY, style="dim"))
    return Group(*parts)


def findings_view(diagnosis: Diagnosis) -> RenderableType:
    if not diagnosis.findings:
        return Text("no findings", style="green")
    return Group(Text(findings_title(diagnosis), style="dim"), finding_rows(diagnosis.findings))


def findings_title(diagnosis: Diagnosis) -> str:
    step = f"a {'profiled step' if diagnosis.profiled else 'step'} of {seconds(diagnosis.step_s)}"
    return f"findings: what each fix saves of {step} (savings overlap, do not add them)"


def finding_rows(findings: Sequence[Finding]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column()
    for finding in findings:
        severity = Text(finding.severity, style=STYLE[finding.severity])
        table.add_row(severity, saving_text(finding), Group(*_finding_lines(finding)))
    return table


def _finding_lines(finding: Finding) -> list[Text]:
    lines = [Text(finding.rule, style="bold").append(f": {finding.summary}", style="not bold")]
    lines.append(Text(f"→ {finding.remedy}"))
    for location in finding.locations[:MAX_LOCATIONS]:
        count = f" ({location.count:.3g} a step)" if location.count else ""
        lines.append(Text(f"at {ending(location.where, LOCATION_WIDTH - len(count))}{count}", style="dim"))
    if len(finding.locations) > MAX_LOCATIONS:
        lines.append(Text(f"and {len(finding.locations) - MAX_LOCATIONS} more places", style="dim"))
    return lines


def saving_text(finding: Finding) -> str:
    if finding.saving_s is None or finding.saving_share is None:
        return "unknown"
    return f"{BOUNDS[finding.bound]}{seconds(finding.saving_s)} {finding.saving_share:.0%}"


def operators_view(operators: Sequence[Operator], steps: int, rows: int = MAX_ROWS) -> RenderableType:
    heads, cells = operator_cells(operators, steps, rows)
    cells = [(ending(row[0], 38), *row[1:]) for row in cells]
    spare = ("memory", "host total", "device total", "calls")
    table = FittingTable(heads, cells, right=heads[1:], folds={"operator": 12}, spare=spare, paddings=(1,))
    title = Text(f"operators, a step of the profiled run ({len(operators)} in all)", style="dim")
    return Group(title, table)


def operator_cells(operators: Sequence[Operator], steps: int, rows: int) -> tuple[Heads, list[tuple[str, ...]]]:
    clocks = ["host_self", "host_total"]
    if any(operator.device_total for operator in operators):
        clocks += ["device_self", "device_total"]
    heads = ("operator", "calls", *(clock.replace("_", " ") for clock in clocks), "memory")
    cells = []
    for operator in operators[:rows]:
        times = [getattr(operator, clock) for clock in clocks]
        bytes_ = memory_of(operator) // steps
        sign = "-" if bytes_ < 0 else ""
        cells.append(
            (
                operator.name,
                f"{operator.calls / steps:.3g}",
                *(seconds(ns / 1e9 / steps) if ns else "-" for ns in times),
                f"{sign}{short_size(abs(bytes_))}" if bytes_ else "-",
            )
        )
    return heads, cells


def memory_of(operator: Operator) -> int:
    """The column 'memory': that of the device, or that of the host where there is no other."""
    return operator.device_memory_self or operator.host_memory_self


def kernels_view(kernels: Sequence[Kernel], steps: int, rows: int = MAX_ROWS) -> RenderableType:
    heads, cells = kernel_cells(kernels, steps, rows)
    cells = [(beginning(row[0], 32), *row[1:]) for row in cells]
    spare = ("smem", "regs", "tensor", "block", "grid", "achieved", "calls")
    table = FittingTable(heads, cells, right=heads[1:], folds={"kernel": 12}, spare=spare, paddings=(1,))
    note = "tensor cores by the kernel's name, achieved by the operator's shapes"
    return Group(Text(f"kernels, a step ({len(kernels)} in all); {note}", style="dim"), table)


def kernel_cells(kernels: Sequence[Kernel], steps: int, rows: int) -> tuple[Heads, list[tuple[str, ...]]]:
    heads = ("kernel", "calls", "time", "share", "grid", "block", "regs", "smem", "tensor", "achieved")
    return heads, [
        (
            short_name(kernel.name),
            f"{kernel.calls / steps:.3g}",
            seconds(kernel.total / 1e9 / steps),
            f"{kernel.share:.1%}",
            _dimensions(kernel.grid),
            _dimensions(kernel.block),
            str(kernel.registers) if kernel.registers is not None else "-",
            short_size(kernel.shared) if kernel.shared else "-",
            TENSOR_CORES[kernel.tensor_cores],
            _achieved(kernel),
        )
        for kernel in kernels[:rows]
    ]


def _dimensions(numbers: tuple[int, int, int] | None) -> str:
    if numbers is None:
        return "-"
    shown = list(numbers)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "x".join(map(str, shown))


def _achieved(kernel: Kernel) -> str:
    value, unit = (kernel.flops_per_s, "FLOP/s") if kernel.flops_per_s else (kernel.bytes_per_s, "B/s")
    if not value:
        return "-"
    scale, prefix = next(((s, p) for s, p in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if value >= s), (1.0, ""))
    return f"{value / scale:.3g} {prefix}{unit}"


def memory_view(use: MemoryUse) -> RenderableType:
    lines: list[RenderableType] = [Text(_peak(use), style="dim")]
    held = [bytes_ for _, bytes_ in use.timeline]
    if held:
        lines.append(Sized(lambda width: _memory_line(held, width)))
    lines.append(Text(f"at the peak: {kinds_at_peak(use)}"))
    for owner in use.owners[:MAX_OWNERS]:
        blocks = f" in {several(owner.blocks, 'block')}" if owner.blocks else ""
        lines.append(Text(f"  {size(owner.bytes):>9}  {owner.kind:<15} {ending(owner.where, 50)}{blocks}"))
    if not use.by_kind["weights"] and use.by_kind["resident"]:
        lines.append(Text(UNKNOWN_OWNER, style="dim"))
    if use.growth is not None:
        growth = use.growth
        caveat = "" if growth.sound else " (too few steps for a sound interval)"
        bounds = (growth.low, growth.mid, growth.high)
        low, mid, high = (f"{'-' if n < 0 else ''}{size(abs(round(n)))}" for n in bounds)
        lines.append(Text(f"growth: {mid} a step, {low} to {high}{caveat}"))
    if use.garbage:
        lines.append(Text(f"garbage in cycles after the last step: {size(use.garbage)}"))
    return Group(*lines)


def kinds_at_peak(use: MemoryUse) -> str:
    kinds = sorted(((n, kind) for kind, n in use.by_kind.items() if n), reverse=True)
    return ", ".join(f"{kind} {size(n)}" for n, kind in kinds)


def _memory_line(held: Sequence[int], width: int) -> Text:
    """From the least to the most, not from zero: what a step holds for a while is little beside the weights."""
    extent = f"from {size(min(held))} to {size(max(held))}"
    # Many points share a column by their maximum, so that the peak is visible.
    line = sparkline(held, max(min(66, width - len(extent) - 2), 8), max) if min(held) < max(held) else ""
    return Text(f"{line}  {extent}")


def _peak(use: MemoryUse) -> str:
    if use.device != HOST:
        return f"device memory: peak {size(use.peak_bytes)} allocated, {size(use.reserved_bytes)} reserved"
    # The host has no caching allocator, and nothing counted what was allocated before the recording.
    caveat = "" if use.by_kind["weights"] else ", without what was allocated before the recording"
    return f"host memory: peak {size(use.peak_bytes)} allocated by torch{caveat}"


# Columns by their printed heads, where those are not the names of the rows' fields.
_FIELDS = {
    Operator: {"operator": "name"},
    Kernel: {"kernel": "name", "time": "total", "regs": "registers", "smem": "shared", "tensor": "tensor_cores"},
}
_COMPUTED: dict[type, dict[str, Callable[[Any], Any]]] = {
    Operator: {"memory": memory_of},
    # FLOP/s and bytes/s do not compare: first the kernels whose operations are counted, then the others.
    Kernel: {"achieved": lambda kernel: (kernel.flops_per_s or 0.0, kernel.bytes_per_s or 0.0)},
}


def check_column(sort: str | None) -> None:
    known = {*_columns(Operator), *_columns(Kernel)}
    if sort is not None and _column(sort) not in known:
        raise unknown("column", sort, sorted(known), "the tables of operators and kernels")


def sorted_by(rows: Sequence[Row], sort: str | None) -> Sequence[Row]:
    """By the column, the greatest first and names from A to Z; unchanged where the table has no such column."""
    if sort is None or not rows or _column(sort) not in _columns(type(rows[0])):
        return rows
    column, table = _column(sort), type(rows[0])
    field = _FIELDS[table].get(column, column)
    if field == "name":
        return sorted(rows, key=lambda row: row.name)

    def key(row: Row) -> tuple[bool, Any]:
        value = _COMPUTED[table][column](row) if column in _COMPUTED[table] else getattr(row, field)
        # Grids and blocks by the number of blocks and threads.
        return value is not None, prod(value) if column in ("grid", "block") and value else value or 0

    return sorted(rows, key=key, reverse=True)


def _columns(table: Any) -> set[str]:
    return {*table.__struct_fields__, *_FIELDS[table], *_COMPUTED[table]}


def _column(name: str) -> str:
    """`host self` as printed, `host_self` as in JSON."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")
