"""Findings, the tables of operators and kernels, and memory."""

from collections.abc import Callable, Sequence
from math import prod
from operator import attrgetter
from typing import Any, TypeVar

from rich.text import Text

from tare.errors import unknown
from tare.findings.diagnosis import Diagnosis
from tare.findings.finding import Finding
from tare.report.numbers import prefixed, seconds, several, short_size, signed, size
from tare.report.plot import sparkline
from tare.report.view import Cell, Drawing, FittingTable, View
from tare.system.text import ending
from tare.trace.kernel_table import Kernel
from tare.trace.memory import HOST, MemoryUse
from tare.trace.names import short_name
from tare.trace.operator_table import Operator

BOUNDS = {"": "", "at most": "≤ ", "at least": "≥ "}
MAX_ROWS = 15
TOP_KERNELS = 5
MAX_LOCATIONS, LOCATION_WIDTH = 3, 68
MAX_OWNERS = 5
NO_MEMORY = "memory: the trace has no allocations in it (profile_memory=True records them)"
UNKNOWN_OWNER = "no trace says whose memory that is: tare explain WORKLOAD knows its own weights by module"
TENSOR_CORES = {True: "yes", False: "no", None: "-"}
Row = TypeVar("Row", Operator, Kernel)


def diagnosis_view(diagnosis: Diagnosis, rows: int = MAX_ROWS, sort: str | None = None) -> View:
    """`sort` is a column of the table of operators or of kernels, or of both."""
    check_column(sort)
    steps = diagnosis.recorded_steps
    view = findings_view(diagnosis).show(operators_view(sorted_by(diagnosis.operators, sort), steps, rows))
    if diagnosis.kernels:
        view.show(kernels_view(sorted_by(diagnosis.kernels, sort), steps, rows))
    return view.show(memory_view(diagnosis.memory) if diagnosis.memory else View().add("faint", NO_MEMORY))


def findings_view(diagnosis: Diagnosis) -> View:
    if not diagnosis.findings:
        return View().add("good", "no findings")
    step = f"a {'profiled step' if diagnosis.profiled else 'step'} of {seconds(diagnosis.step_s)}"
    title = f"findings: what each fix saves of {step} (savings overlap, do not add them)"
    return View().add("faint", title).put(findings_table(diagnosis.findings))


def top_kernels_view(diagnosis: Diagnosis) -> View:
    """The few kernels and copies that take the most of the device's time."""
    rows = [
        {
            "top kernels": short_name(kernel.name),
            "calls a step": f"{kernel.calls / diagnosis.recorded_steps:.3g}",
            "of device time": f"{kernel.share:.1%}",
        }
        for kernel in diagnosis.kernels[:TOP_KERNELS]
    ]
    view = View().put(FittingTable(rows, folds={"top kernels": 12}, cuts={"top kernels": -58})) if rows else View()
    more = len(diagnosis.kernels) - TOP_KERNELS
    return view.add("faint", f"and {several(more, 'kernel')} more (--tables lists them)" if more > 0 else "")


def findings_table(findings: Sequence[Finding]) -> FittingTable:
    rows: list[dict[str, Cell]] = [
        {
            "": finding.severity,
            "saves": saving_text(finding),
            "finding": _finding_text(finding),
        }
        for finding in findings
    ]
    return FittingTable(rows, words=("",), folds={"finding": 24})


def _finding_text(finding: Finding) -> Text:
    text = Text(finding.rule, style="bold").append(f": {finding.summary}\n→ {finding.remedy}", style="not bold")
    for location in finding.locations[:MAX_LOCATIONS]:
        count = f" ({location.count:.3g} a step)" if location.count else ""
        text.append(f"\nat {ending(location.where, LOCATION_WIDTH - len(count))}{count}", style="not bold dim")
    hidden = len(finding.locations) - MAX_LOCATIONS
    return text.append(f"\nand {hidden} more places", style="not bold dim") if hidden > 0 else text


def saving_text(finding: Finding) -> str:
    if finding.saving_s is None or finding.saving_share is None:
        return "unknown"
    return f"{BOUNDS[finding.bound]}{seconds(finding.saving_s)} {finding.saving_share:.0%}"


def operators_view(operators: Sequence[Operator], steps: int, rows: int = MAX_ROWS) -> View:
    clocks = ["host_self", "host_total"]
    if any(operator.device_total for operator in operators):
        clocks += ["device_self", "device_total"]
    cells = []
    for operator in operators[:rows]:
        times = {clock.replace("_", " "): getattr(operator, clock) for clock in clocks}
        bytes_ = memory_of(operator) // steps
        cells.append(
            {
                "operator": operator.name,
                "calls": f"{operator.calls / steps:.3g}",
                **{head: seconds(ns / 1e9 / steps) if ns else "-" for head, ns in times.items()},
                "memory": signed(bytes_, short_size) if bytes_ else "-",
            }
        )
    spare = ("memory", "host total", "device total", "calls")
    view = View().add("faint", f"operators, a step of the profiled run ({len(operators)} in all)")
    return view.put(FittingTable(cells, folds={"operator": 12}, spare=spare, cuts={"operator": -38}))


def memory_of(operator: Operator) -> int:
    """The column 'memory': that of the device, or that of the host where there is no other."""
    return operator.device_memory_self or operator.host_memory_self


def kernels_view(kernels: Sequence[Kernel], steps: int, rows: int = MAX_ROWS) -> View:
    cells = [
        {
            "kernel": short_name(kernel.name),
            "calls": f"{kernel.calls / steps:.3g}",
            "time": seconds(kernel.total / 1e9 / steps),
            "share": f"{kernel.share:.1%}",
            "grid": _dimensions(kernel.grid),
            "block": _dimensions(kernel.block),
            "regs": str(kernel.registers) if kernel.registers is not None else "-",
            "smem": short_size(kernel.shared) if kernel.shared else "-",
            "tensor": TENSOR_CORES[kernel.tensor_cores],
            "achieved": _achieved(kernel),
        }
        for kernel in kernels[:rows]
    ]
    spare = ("smem", "regs", "tensor", "block", "grid", "achieved", "calls")
    note = "tensor cores by the kernel's name, achieved by the operator's shapes"
    view = View().add("faint", f"kernels, a step ({len(kernels)} in all); {note}")
    return view.put(FittingTable(cells, folds={"kernel": 12}, spare=spare, cuts={"kernel": 32}))


def _dimensions(numbers: tuple[int, int, int] | None) -> str:
    if numbers is None:
        return "-"
    shown = list(numbers)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "x".join(map(str, shown))


def _achieved(kernel: Kernel) -> str:
    if kernel.flops_per_s:
        return prefixed(kernel.flops_per_s, "FLOP/s")
    return prefixed(kernel.bytes_per_s, "B/s") if kernel.bytes_per_s else "-"


def memory_view(use: MemoryUse) -> View:
    view = View().add("faint", _peak(use))
    held = [bytes_ for _, bytes_ in use.timeline]
    if held:
        # From the least to the most, not from zero: what a step holds for a while is little beside the weights.
        # Many points share a column by their maximum, so that the peak is visible.
        line = Drawing(lambda width: Text(sparkline(held, width, max)), most=66)
        extent = f"from {size(min(held))} to {size(max(held))}"
        view.put(FittingTable([{"": line, " ": extent}] if min(held) < max(held) else [{"": extent}], words=("",)))
    kinds = sorted(((n, kind) for kind, n in use.by_kind.items() if n), reverse=True)
    view.add("plain", f"at the peak: {', '.join(f'{kind} {size(n)}' for n, kind in kinds)}")
    owners = [
        {
            "": f"  {size(owner.bytes)}",
            " ": owner.kind,
            "  ": owner.where + (f" in {several(owner.blocks, 'block')}" if owner.blocks else ""),
        }
        for owner in use.owners[:MAX_OWNERS]
    ]
    view.put(FittingTable(owners, words=(" ",), folds={"  ": 0}, cuts={"  ": -62}))
    view.add("aside", UNKNOWN_OWNER if not use.by_kind["weights"] and use.by_kind["resident"] else "")
    if growth := use.growth:
        caveat = "" if growth.sound else " (too few steps for a sound interval)"
        low, mid, high = (signed(round(n), size) for n in (growth.low, growth.mid, growth.high))
        view.add("plain", f"growth: {mid} a step, {low} to {high}{caveat}")
    garbage = f"garbage in cycles after the last step: {size(use.garbage)}"
    return view.add("plain", garbage if use.garbage else "")


def _peak(use: MemoryUse) -> str:
    if use.device != HOST:
        return f"device memory: peak {size(use.peak_bytes)} allocated, {size(use.reserved_bytes)} reserved"
    # The host has no caching allocator, and nothing counted what was allocated before the recording.
    caveat = "" if use.by_kind["weights"] else ", without what was allocated before the recording"
    return f"host memory: peak {size(use.peak_bytes)} allocated by torch{caveat}"


def _blocks(field: str) -> Callable[[Any], Any]:
    """Grids and blocks sort by the number of blocks and threads."""
    return lambda kernel: prod(getattr(kernel, field) or (0,))


# What the printed columns sort by, where that is not the field of the same name.
_SORT_KEYS: dict[type, dict[str, Callable[[Any], Any]]] = {
    Operator: {"operator": attrgetter("name"), "memory": memory_of},
    Kernel: {
        "kernel": attrgetter("name"),
        "time": attrgetter("total"),
        "grid": _blocks("grid"),
        "block": _blocks("block"),
        "regs": attrgetter("registers"),
        "smem": attrgetter("shared"),
        "tensor": attrgetter("tensor_cores"),
        # FLOP/s and bytes/s do not compare: first the kernels whose operations are counted, then the others.
        "achieved": lambda kernel: (kernel.flops_per_s or 0.0, kernel.bytes_per_s or 0.0),
    },
}


def check_column(sort: str | None) -> None:
    known = {*_sort_keys(Operator), *_sort_keys(Kernel)}
    if sort is not None and _column(sort) not in known:
        raise unknown("column", sort, sorted(known), "the tables of operators and kernels")


def sorted_by(rows: Sequence[Row], sort: str | None) -> Sequence[Row]:
    """By the column, the greatest first and names from A to Z; unchanged where the table has no such column."""
    key = _sort_keys(type(rows[0])).get(_column(sort)) if sort and rows else None
    if key is None:
        return rows
    if isinstance(key(rows[0]), str):
        return sorted(rows, key=key)
    return sorted(rows, key=lambda row: (key(row) is not None, key(row) or 0), reverse=True)


def _sort_keys(table: Any) -> dict[str, Callable[[Any], Any]]:
    return {field: attrgetter(field) for field in table.__struct_fields__} | _SORT_KEYS[table]


def _column(name: str) -> str:
    """`host self` as printed, `host_self` as in JSON."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")
