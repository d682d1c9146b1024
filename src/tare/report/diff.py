"""Two records or traces side by side."""

from collections.abc import Sequence

from tare.findings.trace_diff import TraceChange, TraceDiff
from tare.records.figures import RecordChanges
from tare.report.findings import findings_table
from tare.report.numbers import seconds, value
from tare.report.view import FittingTable, View
from tare.trace.names import short_name

PROFILED = "gross is not known of both: host times are those of the profiled step, which is longer"
SHARES = "the profiler only tells shares of the host's time: host times are those shares of gross"
VERDICTS = {None: "", True: "a clear difference", False: "within the noise"}


def diff_view(records: RecordChanges | None, trace: TraceDiff | None, notes: Sequence[str], rows: int) -> View:
    view = View()
    if records:
        view.show(records_view(records))
    if trace:
        view.show(trace_diff_view(trace, rows))
    return view.add("note", *notes)


def records_view(changes: RecordChanges) -> View:
    rows = [
        {
            "figure": figure.name,
            "before": value(figure.before, figure.unit) if figure.before is not None else "-",
            "after": value(figure.after, figure.unit) if figure.after is not None else "-",
            "B / A": f"{figure.ratio:.3g}" if figure.ratio is not None else "-",
            "": VERDICTS[figure.clear],
        }
        for figure in changes.figures
    ]
    heads = {"before": changes.before, "after": changes.after}
    view = View().put(FittingTable(rows, folds={"figure": 0, "": 0}, heads=heads))
    return view.add("warning", *changes.case, *changes.environment)


def trace_diff_view(diff: TraceDiff, rows: int) -> View:
    steps = {"as profiled" if diff.profiled else "gross": (diff.before_step_s, diff.after_step_s)}
    if diff.has_device:
        steps["of it in kernels"] = (diff.before_device_s, diff.after_device_s)
    cells = [{"a step": name, "A": seconds(a), "B": seconds(b)} for name, (a, b) in steps.items()]
    view = View().put(FittingTable(cells, words=("a step",)))
    view.add("faint", PROFILED if diff.profiled else SHARES)
    if diff.has_device:
        view.show(_changes_view("kernels", diff.kernels, rows))
    view.show(_changes_view("operators", diff.operators, rows))
    return view.show(View().put(findings_table(diff.findings))) if diff.findings else view


def _changes_view(title: str, changes: Sequence[TraceChange], rows: int) -> View:
    cells = [_change_cells(title, change) for change in changes[:rows]]
    spare = ("calls", "difference")
    view = View().put(FittingTable(cells, words=("change",), folds={title: 12}, spare=spare, cuts={title: 36}))
    view.add("faint", "" if changes else f"{title}: no change")
    return view.add("faint", f"and {len(changes) - rows} more (--rows, --json)" if len(changes) > rows else "")


def _change_cells(title: str, change: TraceChange) -> dict[str, str]:
    calls = f"{change.after_calls:.3g}"
    if change.before_calls != change.after_calls:
        calls = f"{change.before_calls:.3g}→{calls}"
    name = short_name(change.name) if change.kind == "kernel" else change.name
    return {
        "change": change.status,
        "calls": calls,
        "A": seconds(change.before_s) if change.before_s else "-",
        "B": seconds(change.after_s) if change.after_s else "-",
        "difference": ("+" if change.difference_s > 0 else "-") + seconds(abs(change.difference_s)),
        title: f"(host) {name}" if change.clock == "host" else name,
    }
