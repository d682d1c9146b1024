"""Two records or traces side by side, for the terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tare.findings.trace_diff import TraceChange, TraceDiff
from tare.records.changes import FigureChange, RecordChanges
from tare.report.findings import finding_rows
from tare.report.numbers import seconds, size
from tare.report.table import FittingTable, simple_table
from tare.system.text import beginning
from tare.trace.names import short_name

PROFILED = "gross is not known of both: host times are the profiler's, longer than they are without it"
SHARES = "of the host's time a profiler only knows the shares: host times are those shares of gross"
STYLE = {"slower": "red", "appeared": "yellow", "vanished": "green", "faster": "green"}


def diff_view(
    records: RecordChanges | None, trace: TraceDiff | None, notes: Sequence[str], rows: int
) -> RenderableType:
    parts: list[RenderableType] = []
    if records:
        parts.append(records_view(records))
    if trace:
        parts += [Text("")] if parts else []
        parts.append(changes_view(trace, rows))
    parts += [Text(f"  note: {note}", style="yellow") for note in notes]
    return Group(*parts)


def records_view(found: RecordChanges) -> RenderableType:
    rows = []
    for figure in found.figures:
        ratio = f"{figure.ratio:.3g}" if figure.ratio is not None else "-"
        values = (_value(figure, figure.before), _value(figure, figure.after))
        rows.append((figure.name, *values, ratio, _verdict(figure)))
    heads = ("figure", found.before, found.after, "B / A", "")
    table = FittingTable(heads, rows, right=heads[1:4], folds={"figure": 0, "": 0})
    lines = [Text(f"  {line}", style="yellow") for line in (*found.case, *found.environment)]
    return Group(table, *lines)


def _value(figure: FigureChange, value: float | None) -> str:
    if value is None:
        return "-"
    return seconds(value) if figure.unit == "s" else size(round(value))


def _verdict(figure: FigureChange) -> str:
    if figure.clear is None:
        return ""
    return "a clear difference" if figure.clear else "within the noise"


def changes_view(found: TraceDiff, rows: int) -> RenderableType:
    head = simple_table("a step", "A", "B", right=slice(1, None))
    whole = "as profiled" if found.profiled else "gross"
    head.add_row(whole, seconds(found.before_step_s), seconds(found.after_step_s))
    if found.has_device:
        head.add_row("of it in kernels", seconds(found.before_device_s), seconds(found.after_device_s))
    parts: list[RenderableType] = [head, Text(PROFILED if found.profiled else SHARES, style="dim")]
    tables = [("kernels", found.kernels)] if found.has_device else []
    for title, changes in (*tables, ("operators", found.operators)):
        parts += [Text(""), _table(title, changes, rows)]
    if found.findings:
        parts += [Text(""), finding_rows(found.findings)]
    return Group(*parts)


def _table(title: str, changes: Sequence[TraceChange], rows: int) -> RenderableType:
    if not changes:
        return Text(f"{title}: no change", style="dim")
    cells = []
    for one in changes[:rows]:
        calls = f"{one.before_calls:.3g}→{one.after_calls:.3g}" if one.before_calls != one.after_calls else ""
        sign = "+" if one.difference_s > 0 else "-"
        name = short_name(one.name) if one.kind == "kernel" else one.name
        cells.append(
            (
                Text(one.status, style=STYLE.get(one.status, "")),
                calls or f"{one.after_calls:.3g}",
                seconds(one.before_s) if one.before_s else "-",
                seconds(one.after_s) if one.after_s else "-",
                sign + seconds(abs(one.difference_s)),
                beginning(name, 36 if one.clock == "device" else 28)
                + ("" if one.clock == "device" else " (host)"),
            )
        )
    heads = ("change", "calls", "A", "B", "difference", title)
    spare, folds = ("calls", "difference"), {title: 12}
    table = FittingTable(heads, cells, right=heads[1:5], folds=folds, spare=spare, paddings=(1,))
    if len(changes) > rows:
        return Group(table, Text(f"and {len(changes) - rows} more (--rows, --json)", style="dim"))
    return table
