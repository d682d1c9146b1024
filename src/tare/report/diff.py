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

PROFILED = "gross is not known of both: host times are those of the profiled step, which is longer"
SHARES = "the profiler only tells shares of the host's time: host times are those shares of gross"
STYLE = {"slower": "red", "appeared": "yellow", "vanished": "green", "faster": "green"}
VERDICTS = {None: "", True: "a clear difference", False: "within the noise"}


def diff_view(
    records: RecordChanges | None, trace: TraceDiff | None, notes: Sequence[str], rows: int
) -> RenderableType:
    parts: list[RenderableType] = []
    if records:
        parts.append(records_view(records))
    if trace:
        parts += [Text("")] if parts else []
        parts.append(trace_diff_view(trace, rows))
    parts += [Text(f"  note: {note}", style="yellow") for note in notes]
    return Group(*parts)


def records_view(changes: RecordChanges) -> RenderableType:
    rows = []
    for figure in changes.figures:
        ratio = f"{figure.ratio:.3g}" if figure.ratio is not None else "-"
        values = (_value(figure, figure.before), _value(figure, figure.after))
        rows.append((figure.name, *values, ratio, VERDICTS[figure.clear]))
    heads = ("figure", changes.before, changes.after, "B / A", "")
    table = FittingTable(heads, rows, right=heads[1:4], folds={"figure": 0, "": 0})
    lines = [Text(f"  {line}", style="yellow") for line in (*changes.case, *changes.environment)]
    return Group(table, *lines)


def _value(figure: FigureChange, value: float | None) -> str:
    if value is None:
        return "-"
    return seconds(value) if figure.unit == "s" else size(round(value))


def trace_diff_view(diff: TraceDiff, rows: int) -> RenderableType:
    steps = simple_table("a step", "A", "B", right=slice(1, None))
    label = "as profiled" if diff.profiled else "gross"
    steps.add_row(label, seconds(diff.before_step_s), seconds(diff.after_step_s))
    if diff.has_device:
        steps.add_row("of it in kernels", seconds(diff.before_device_s), seconds(diff.after_device_s))
    parts: list[RenderableType] = [steps, Text(PROFILED if diff.profiled else SHARES, style="dim")]
    if diff.has_device:
        parts += [Text(""), _changes_table("kernels", diff.kernels, rows)]
    parts += [Text(""), _changes_table("operators", diff.operators, rows)]
    if diff.findings:
        parts += [Text(""), finding_rows(diff.findings)]
    return Group(*parts)


def _changes_table(title: str, changes: Sequence[TraceChange], rows: int) -> RenderableType:
    if not changes:
        return Text(f"{title}: no change", style="dim")
    heads = ("change", "calls", "A", "B", "difference", title)
    cells = [_change_cells(change) for change in changes[:rows]]
    spare, folds = ("calls", "difference"), {title: 12}
    table = FittingTable(heads, cells, right=heads[1:5], folds=folds, spare=spare, paddings=(1,))
    if len(changes) > rows:
        return Group(table, Text(f"and {len(changes) - rows} more (--rows, --json)", style="dim"))
    return table


def _change_cells(change: TraceChange) -> tuple[Text | str, ...]:
    calls = f"{change.after_calls:.3g}"
    if change.before_calls != change.after_calls:
        calls = f"{change.before_calls:.3g}→{calls}"
    name = short_name(change.name) if change.kind == "kernel" else change.name
    on_host = change.clock == "host"
    return (
        Text(change.status, style=STYLE.get(change.status, "")),
        calls,
        seconds(change.before_s) if change.before_s else "-",
        seconds(change.after_s) if change.after_s else "-",
        ("+" if change.difference_s > 0 else "-") + seconds(abs(change.difference_s)),
        beginning(name, 28) + " (host)" if on_host else beginning(name, 36),
    )
