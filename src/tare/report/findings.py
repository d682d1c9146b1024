"""Findings, tables and memory for the terminal: at most 100 columns."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tare.findings.diagnosis import Diagnosis
from tare.findings.finding import Finding
from tare.report.numbers import seconds, several, short_size, size
from tare.report.sorting import check_column, memory, sorted_by
from tare.report.table import FittingTable, Sized
from tare.system.text import beginning, ending
from tare.trace.kernel_table import Kernel
from tare.trace.memory import HOST, MemoryUse
from tare.trace.names import short_name
from tare.trace.operator_table import Operator

BOUNDS = {"": "", "at most": "≤ ", "at least": "≥ "}
STYLE = {"high": "bold red", "medium": "yellow", "low": "dim"}
MOST_ROWS = 15
MOST_PLACES = 3
PLACE = 68
NO_MEMORY = "memory: the trace has no allocations in it (profile_memory=True records them)"
UNKNOWN_BEFORE = "  whose memory that is, no trace says: tare explain WORKLOAD knows its own weights by module"
BARS = "▁▂▃▄▅▆▇█"
Heads = tuple[str, ...]
CORES = {True: "yes", False: "no", None: "-"}


def diagnosis_view(found: Diagnosis, rows: int = MOST_ROWS, sort: str | None = None) -> RenderableType:
    """`sort` is a column of the table of operators or of kernels, or of both."""
    check_column(sort)
    parts: list[RenderableType] = [findings_view(found), Text("")]
    parts += [operators_view(sorted_by(found.operators, sort), found.recorded_steps, rows), Text("")]
    if found.kernels:
        parts += [kernels_view(sorted_by(found.kernels, sort), found.recorded_steps, rows), Text("")]
    if found.memory:
        parts.append(memory_view(found.memory))
    else:
        parts.append(Text(NO_MEMORY, style="dim"))
    return Group(*parts)


def findings_view(found: Diagnosis) -> RenderableType:
    if not found.findings:
        return Text("no findings", style="green")
    step = "profiled step" if found.profiled else "step"
    head = (
        f"findings: what fixing each saves of a {step} of {seconds(found.step_s)} (savings overlap: do not add them)"
    )
    return Group(Text(head, style="dim"), finding_rows(found.findings))


def finding_rows(findings: Sequence[Finding]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column()
    for finding in findings:
        severity = Text(finding.severity, style=STYLE[finding.severity])
        table.add_row(severity, saving(finding), Group(*_finding(finding)))
    return table


def _finding(finding: Finding) -> list[Text]:
    lines = [Text(finding.rule, style="bold").append(f": {finding.summary}", style="not bold")]
    lines.append(Text(f"→ {finding.remedy}"))
    for place in finding.locations[:MOST_PLACES]:
        often = f" ({place.count:.3g} a step)" if place.count else ""
        lines.append(Text(f"at {ending(place.where, PLACE - len(often))}{often}", style="dim"))
    if len(finding.locations) > MOST_PLACES:
        lines.append(Text(f"and {len(finding.locations) - MOST_PLACES} more places", style="dim"))
    return lines


def saving(finding: Finding) -> str:
    if finding.saving_s is None or finding.saving_share is None:
        return "unknown"
    return f"{BOUNDS[finding.bound]}{seconds(finding.saving_s)} {finding.saving_share:.0%}"


def operators_view(operators: Sequence[Operator], steps: int, rows: int = MOST_ROWS) -> RenderableType:
    heads, found = operator_cells(operators, steps, rows)
    cells = [(ending(one[0], 38), *one[1:]) for one in found]
    spare = ("memory", "host total", "device total", "calls")
    table = FittingTable(heads, cells, right=heads[1:], folds={"operator": 12}, spare=spare, paddings=(1,))
    head = Text(f"operators, a step of the profiled run ({len(operators)} in all)", style="dim")
    return Group(head, table)


def operator_cells(operators: Sequence[Operator], steps: int, rows: int) -> tuple[Heads, list[tuple[str, ...]]]:
    clocks = ["host_self", "host_total"]
    if any(one.device_total for one in operators):
        clocks += ["device_self", "device_total"]
    heads = ("operator", "calls", *(clock.replace("_", " ") for clock in clocks), "memory")
    return heads, [
        (
            one.name,
            f"{one.calls / steps:.3g}",
            *(seconds(ns / 1e9 / steps) if ns else "-" for ns in (getattr(one, clock) for clock in clocks)),
            _signed(memory(one) // steps),
        )
        for one in operators[:rows]
    ]


def kernels_view(kernels: Sequence[Kernel], steps: int, rows: int = MOST_ROWS) -> RenderableType:
    heads, found = kernel_cells(kernels, steps, rows)
    cells = [(beginning(one[0], 32), *one[1:]) for one in found]
    spare = ("smem", "regs", "tensor", "block", "grid", "achieved", "calls")
    table = FittingTable(heads, cells, right=heads[1:], folds={"kernel": 12}, spare=spare, paddings=(1,))
    note = "tensor cores by the kernel's name, achieved by the operator's shapes"
    return Group(Text(f"kernels, a step ({len(kernels)} in all); {note}", style="dim"), table)


def kernel_cells(kernels: Sequence[Kernel], steps: int, rows: int) -> tuple[Heads, list[tuple[str, ...]]]:
    heads = ("kernel", "calls", "time", "share", "grid", "block", "regs", "smem", "tensor", "achieved")
    return heads, [
        (
            short_name(one.name),
            f"{one.calls / steps:.3g}",
            seconds(one.total / 1e9 / steps),
            f"{one.share:.1%}",
            _shape(one.grid),
            _shape(one.block),
            str(one.registers) if one.registers is not None else "-",
            short_size(one.shared) if one.shared else "-",
            CORES[one.tensor_cores],
            achieved(one),
        )
        for one in kernels[:rows]
    ]


def achieved(kernel: Kernel) -> str:
    if kernel.flops_per_s:
        return _rate(kernel.flops_per_s, "FLOP/s")
    return _rate(kernel.bytes_per_s, "B/s") if kernel.bytes_per_s else "-"


def _rate(value: float, unit: str) -> str:
    scale, prefix = next(((s, p) for s, p in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if value >= s), (1.0, ""))
    return f"{value / scale:.3g} {prefix}{unit}"


def memory_view(use: MemoryUse) -> RenderableType:
    lines: list[RenderableType] = [Text(_peak(use), style="dim")]
    held = [bytes_ for _, bytes_ in use.timeline]
    if held:
        lines.append(Sized(lambda width: _held(held, width)))
    lines.append(Text(f"at the peak: {kinds_at_peak(use)}"))
    for owner in use.owners[:5]:
        blocks = f" in {several(owner.blocks, 'block')}" if owner.blocks else ""
        lines.append(Text(f"  {size(owner.bytes):>9}  {owner.kind:<15} {ending(owner.where, 50)}{blocks}"))
    if not use.by_kind["weights"] and use.by_kind["resident"]:
        lines.append(Text(UNKNOWN_BEFORE, style="dim"))
    if use.growth is not None:
        rise = use.growth
        sure = "" if rise.sound else " (too few steps for a sound interval)"
        low, mid, high = (f"{'-' if n < 0 else ''}{size(abs(round(n)))}" for n in (rise.low, rise.mid, rise.high))
        lines.append(Text(f"growth: {mid} a step, {low} to {high}{sure}"))
    if use.garbage:
        lines.append(Text(f"garbage in cycles after the last step: {size(use.garbage)}"))
    return Group(*lines)


def kinds_at_peak(use: MemoryUse) -> str:
    kinds = sorted(((n, kind) for kind, n in use.by_kind.items() if n), reverse=True)
    return ", ".join(f"{kind} {size(n)}" for n, kind in kinds)


def _held(held: Sequence[int], width: int) -> Text:
    reach = f"from {size(min(held))} to {size(max(held))}"
    return Text(f"{sparkline(held, max(min(66, width - len(reach) - 2), 8))}  {reach}")


def _peak(use: MemoryUse) -> str:
    if use.device != HOST:
        return f"device memory: peak {size(use.peak_bytes)} allocated, {size(use.reserved_bytes)} reserved"
    # The host has no caching allocator, and what its allocator gave out before nobody has counted.
    less = "" if use.by_kind["weights"] else ", without what was allocated before the recording"
    return f"host memory: peak {size(use.peak_bytes)} allocated by torch{less}"


def sparkline(values: Sequence[int], width: int = 66) -> str:
    """The timeline in blocks, from the least to the most, the highest of each stretch.

    Not from nothing: what a step holds for a while is little beside the weights."""
    least, most = min(values, default=0), max(values, default=0)
    if least == most:
        return ""
    count = min(width, len(values))
    stretches = [values[i * len(values) // count : max((i + 1) * len(values) // count, 1)] for i in range(count)]
    heights = [(max(part) - least) / (most - least) for part in stretches if part]
    return "".join(BARS[min(int(height * len(BARS)), len(BARS) - 1)] for height in heights)


def _shape(numbers: tuple[int, int, int] | None) -> str:
    if numbers is None:
        return "-"
    shown = list(numbers)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "x".join(map(str, shown))


def _signed(bytes_: int) -> str:
    if bytes_ == 0:
        return "-"
    return f"-{short_size(-bytes_)}" if bytes_ < 0 else short_size(bytes_)
