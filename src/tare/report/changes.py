"""A comparison for the terminal: changed figures in full, the rest in one line."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tare.guard.changes import CaseChange, MetricChange, Report
from tare.report.figures import before_and_now
from tare.report.numbers import seconds, size
from tare.report.table import FittingTable, Sized
from tare.report.terminal import key_text, note_text
from tare.system.text import beginning

STYLE = {"slower": "bold red", "more": "bold red", "faster": "green", "less": "green", "undecided": "yellow"}
# From this width on remarks have a column of their own.
MIN_REMARK_WIDTH = 90
MAX_CALL_CHANGES = 6
MAX_KEYS = 5
# From this ratio on a change is printed as a factor instead of per cent.
MIN_FACTOR = 10.0
STATES = {
    "broken": "fails now",
    "different": "computes something else now",
    "failed": "fails on both sides",
    "fixed": "works now, and failed before",
}

NEWLY_FAILING = "fails in some rounds now, and did not before"


def wrong_with(case: CaseChange) -> str:
    """Why a case is bad apart from its figures; empty if it is not."""
    if case.state in ("broken", "different"):
        return f"{STATES[case.state]}: {case.reason}"
    return f"{NEWLY_FAILING}: {case.reason}" if case.newly_failing else ""


def changes_view(report: Report, everything: bool = False) -> RenderableType:
    """`everything` also shows metrics that did not change."""
    parts: list[RenderableType] = [Text(f"{report.b} against {report.a}", style="bold")]
    parts += [Text(f"  {line}", style="dim") for line in report.compared]
    parts += [Text(f"  not comparable, and forced: {line}", style="bold yellow") for line in report.forced]
    for case in report.cases:
        parts += _case(case, everything)
    parts += [note_text(note) for note in report.notes]
    for label, keys in _only(report):
        parts.append(Text(f"not compared, only in {label}:", style="yellow"))
        parts += [key_text(key) for key in keys[:MAX_KEYS]]
        parts += [Text(f"  and {len(keys) - MAX_KEYS} more")] if len(keys) > MAX_KEYS else []
    parts.append(Text(summary_line(report), style="bold red" if report.bad else "bold"))
    return Group(*parts)


def uncompared(report: Report) -> list[tuple[str, str]]:
    """The cases that only one side has, each with that side's name: a reader must not take them for compared."""
    return [(key, label) for label, keys in _only(report) for key in keys]


def uncompared_lines(report: Report) -> list[str]:
    """A line for each side, with the first few of its cases."""
    lines = []
    for label, keys in _only(report):
        more = f" and {len(keys) - MAX_KEYS} more" if len(keys) > MAX_KEYS else ""
        lines.append(f"not compared, only in {label}: {', '.join(keys[:MAX_KEYS])}{more}")
    return lines


def _only(report: Report) -> list[tuple[str, list[str]]]:
    return [(label, keys) for label, keys in ((report.b, report.only_b), (report.a, report.only_a)) if keys]


def summary_line(report: Report) -> str:
    """`2 regressions in 1 of 12 cases, 1 not compared; gross: 9 same, 2 undecided, 1 slower`"""
    count = sum(len(case.regressions) + len(case.leaks) + bool(wrong_with(case)) for case in report.bad)
    if not count:
        head = f"no regression in {len(report.cases)} {_plural('case', len(report.cases))}"
    else:
        head = f"{count} {_plural('regression', count)} in {len(report.bad)} of {len(report.cases)} cases"
    if report.only_b:
        head += f", {len(report.only_b)} not compared"
    verdicts = Counter(c.verdict for case in report.cases for c in case.changes if c.metric == "gross")
    text = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common())
    return f"{head}; gross: {text}" if text else head


def change_of(change: MetricChange) -> str:
    """`+5.2 % (+3.9 .. +6.4)`, `65x (5.8x .. 180x)`, or the counts of an exact metric."""
    if change.exact or change.ratio is None:
        return f"{change.b - change.a:+g}" if change.unit != "B" else _signed_size(change.b - change.a)
    numbers = [number for number in (change.ratio, change.low, change.high) if number is not None]
    show, unit = (_times, "") if max(numbers) >= MIN_FACTOR else (percent, " %")
    if change.low is None or change.high is None:
        return f"{show(change.ratio)}{unit}"
    return f"{show(change.ratio)}{unit} ({show(change.low)} .. {show(change.high)})"


def percent(ratio: float) -> str:
    value = (ratio - 1) * 100
    return f"{value:+.1f}" if abs(value) < 1000 else f"{value:+.2g}"


def _times(ratio: float) -> str:
    return f"{ratio:.3g}x"


def share(number: float) -> str:
    """7%, 2.5%"""
    return f"{number * 100:.3g}%"


def remark(change: MetricChange) -> str:
    """Threshold, confirmation, outliers and notes of a change."""
    parts = []
    if change.regression:
        parts.append(_over(change))
    elif change.worse:
        parts.append(f"under the threshold of {share(change.threshold)}")
    if change.stage != "first":
        parts.append(f"{change.stage} in {change.rounds_b} fresh rounds")
    if change.more_rounds is not None:
        parts.append(f"{change.more_rounds} more {_plural('round', change.more_rounds)} would probably decide")
    if change.outliers:
        parts.append(f"{change.outliers} {_plural('outlier', change.outliers)} excluded")
    if change.note:
        parts.append(change.note)
    return ", ".join(parts)


def _over(change: MetricChange) -> str:
    """An interval that only reaches the threshold does not prove that the change exceeds it."""
    if not change.threshold:
        return "any increase counts"
    proven = change.low if change.low is not None else change.ratio
    sure = proven is None or proven > 1 + change.threshold
    return f"{'over' if sure else 'perhaps over'} {share(change.threshold)}"


def _case(case: CaseChange, everything: bool) -> list[RenderableType]:
    shown = [c for c in case.changes if everything or c.worse or c.verdict not in ("same", "undecided")
             or c.stage != "first" or c.metric == "gross"]  # fmt: skip
    parts: list[RenderableType] = [key_text(case.case, "bold red" if case.bad else "")]
    if wrong := wrong_with(case):
        parts.append(Text(f"  {wrong}", style="red"))
    elif case.state != "compared":
        parts.append(Text(f"  {STATES[case.state]}: {case.reason}", style="dim"))
    elif case.reason:
        parts.append(Text(f"  {case.reason}", style="yellow"))
    parts += [Text(f"  leak: {leak}", style="bold red") for leak in case.leaks]
    if shown:
        parts.append(Sized(lambda width: _table(shown, width)))
    return [*parts, *_call_changes(case)]


def _table(changes: Sequence[MetricChange], width: int) -> RenderableType:
    """On a narrow terminal the interval is under the change, and the remarks are under the table."""
    wide = width >= MIN_REMARK_WIDTH
    rows: list[tuple[str | Text, ...]] = []
    for change in changes:
        verdict = Text(change.verdict, style=STYLE.get(change.verdict, ""))
        text = change_of(change) if wide else change_of(change).replace(" (", "\n(")
        rows.append(
            (f"  {change.metric}", *before_and_now(change), text, verdict, *([remark(change)] if wide else []))
        )
    heads = ("  metric", "before", "now", "change", "verdict", *([""] if wide else []))
    folds = {"": 12} if wide else {"  metric": 0}
    table = FittingTable(heads, rows, right=heads[1:3], folds=folds, spare=("before", "now"))
    if wide:
        return table
    remarks = [Text(f"  {change.metric}: {remark(change)}") for change in changes if remark(change)]
    return Group(table, *remarks)


def _call_changes(case: CaseChange) -> list[RenderableType]:
    """What differs in the step of a regressed case, in a few lines."""
    if not case.bad or not case.call_changes:
        return []
    lines: list[RenderableType] = []
    for change in case.call_changes[:MAX_CALL_CHANGES]:
        calls = f"{change.before_calls:g} to {change.after_calls:g} calls a step"
        if change.before_s and change.after_s and change.before_calls == change.after_calls:
            calls = f"{seconds(change.before_s)} to {seconds(change.after_s)} a step"
        lines.append(Text(f"  {change.status}: {change.kind} {beginning(change.name, 60)}, {calls}", style="dim"))
    more = len(case.call_changes) - MAX_CALL_CHANGES
    return [*lines, Text(f"  and {more} more (--format markdown)", style="dim")] if more > 0 else lines


def _signed_size(number: float) -> str:
    return f"{'-' if number < 0 else '+'}{size(round(abs(number)))}"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
