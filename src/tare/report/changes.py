"""A comparison for the terminal: what changed first, what is the same in a line."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tare.guard.changes import CaseChange, Change, Report
from tare.report.figures import before_and_now
from tare.report.numbers import seconds, size
from tare.report.table import FittingTable, Sized
from tare.report.terminal import key_text, note_text
from tare.system.text import beginning

STYLE = {"slower": "bold red", "more": "bold red", "faster": "green", "less": "green", "undecided": "yellow"}
# From this width on what is remarked of a change has a column of its own.
ROOM_FOR_REMARKS = 90
MOST_DIFFERING = 6
MOST_KEYS = 5
# From this ratio on a change is told as one.
TIMES_FROM = 10.0
STATES = {
    "broken": "fails now",
    "different": "computes something else now",
    "failed": "fails on both sides",
    "mended": "works now, and failed before",
}

SOMETIMES = "fails in some rounds now, and did not before"


def wrong_with(case: CaseChange) -> str:
    """Why a case is bad as a whole, whatever its figures are; empty where it is not."""
    if case.state in ("broken", "different"):
        return f"{STATES[case.state]}: {case.reason}"
    return f"{SOMETIMES}: {case.reason}" if case.newly_failing else ""


def changes_view(report: Report, everything: bool = False) -> RenderableType:
    """`everything` shows the lines as well in which nothing changed."""
    parts: list[RenderableType] = [Text(f"{report.b} against {report.a}", style="bold")]
    parts += [Text(f"  {line}", style="dim") for line in report.compared]
    parts += [Text(f"  not comparable, and forced: {line}", style="bold yellow") for line in report.forced]
    for case in report.cases:
        parts += _case(case, everything)
    parts += [note_text(note) for note in report.notes]
    for label, keys in _only(report):
        parts.append(Text(f"not compared, only in {label}:", style="yellow"))
        parts += [key_text(key) for key in keys[:MOST_KEYS]]
        parts += [Text(f"  and {len(keys) - MOST_KEYS} more")] if len(keys) > MOST_KEYS else []
    parts.append(Text(summary_line(report), style="bold red" if report.bad else "bold"))
    return Group(*parts)


def uncompared(report: Report) -> list[tuple[str, str]]:
    """The cases that only one side has, each with that side's name: whoever reads a report must not take them for
    compared."""
    return [(key, label) for label, keys in _only(report) for key in keys]


def uncompared_lines(report: Report) -> list[str]:
    """A line a side, with the first few of its cases."""
    lines = []
    for label, keys in _only(report):
        more = f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
        lines.append(f"not compared, only in {label}: {', '.join(keys[:MOST_KEYS])}{more}")
    return lines


def _only(report: Report) -> list[tuple[str, list[str]]]:
    return [(label, keys) for label, keys in ((report.b, report.only_b), (report.a, report.only_a)) if keys]


def summary_line(report: Report) -> str:
    """`2 regressions in 1 of 12 cases, 1 not compared; gross: 9 same, 2 undecided, 1 slower`"""
    found = sum(len(case.regressions) + len(case.leaks) + bool(wrong_with(case)) for case in report.bad)
    if not found:
        head = f"no regression in {len(report.cases)} {_plural('case', len(report.cases))}"
    else:
        head = f"{found} {_plural('regression', found)} in {len(report.bad)} of {len(report.cases)} cases"
    if report.only_b:
        head += f", {len(report.only_b)} not compared"
    verdicts = Counter(c.verdict for case in report.cases for c in case.changes if c.metric == "gross")
    told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    return f"{head}; gross: {told}" if told else head


def change_of(change: Change) -> str:
    """`+5.2 % (+3.9 .. +6.4)`, `65x (5.8x .. 180x)`, or the counts of an exact metric."""
    if change.exact or change.ratio is None:
        return f"{change.b - change.a:+g}" if change.unit != "B" else _signed_size(change.b - change.a)
    known = [number for number in (change.ratio, change.low, change.high) if number is not None]
    # Nobody thinks in thousands of per cent.
    show, unit = (_times, "") if max(known) >= TIMES_FROM else (percent, " %")
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


def remark(change: Change) -> str:
    """What else a reader wants to know of a change."""
    told = []
    if change.regression:
        told.append(_over(change))
    elif change.worse:
        told.append(f"under the threshold of {share(change.threshold)}")
    if change.stage != "first":
        told.append(f"{change.stage} in {change.rounds_b} fresh rounds")
    if change.more_rounds is not None:
        told.append(f"{change.more_rounds} more {_plural('round', change.more_rounds)} would probably decide")
    if change.set_aside:
        told.append(f"{change.set_aside} {_plural('outlier', change.set_aside)} set aside")
    if change.note:
        told.append(change.note)
    return ", ".join(told)


def _over(change: Change) -> str:
    """No more than the interval says: one that only reaches the threshold does not prove that it is passed."""
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
    return [*parts, *_differing(case)]


def _table(changes: Sequence[Change], width: int) -> RenderableType:
    """Where there is little room an interval stands under its change, and remarks under the table."""
    wide = width >= ROOM_FOR_REMARKS
    rows: list[tuple[str | Text, ...]] = []
    for change in changes:
        verdict = Text(change.verdict, style=STYLE.get(change.verdict, ""))
        told = change_of(change) if wide else change_of(change).replace(" (", "\n(")
        rows.append(
            (f"  {change.metric}", *before_and_now(change), told, verdict, *([remark(change)] if wide else []))
        )
    heads = ("  metric", "before", "now", "change", "verdict", *([""] if wide else []))
    folds = {"": 12} if wide else {"  metric": 0}
    table = FittingTable(heads, rows, right=heads[1:3], folds=folds, spare=("before", "now"))
    if wide:
        return table
    remarks = [Text(f"  {change.metric}: {remark(change)}") for change in changes if remark(change)]
    return Group(table, *remarks)


def _differing(case: CaseChange) -> list[RenderableType]:
    """What a step that got worse does otherwise, in a few lines."""
    if not case.bad or not case.differing:
        return []
    lines: list[RenderableType] = []
    for one in case.differing[:MOST_DIFFERING]:
        calls = f"{one.before_calls:g} to {one.after_calls:g} calls a step"
        if one.before_s and one.after_s and one.before_calls == one.after_calls:
            calls = f"{seconds(one.before_s)} to {seconds(one.after_s)} a step"
        lines.append(Text(f"  {one.status}: {one.what} {beginning(one.name, 60)}, {calls}", style="dim"))
    left = len(case.differing) - MOST_DIFFERING
    return [*lines, Text(f"  and {left} more (--format markdown)", style="dim")] if left > 0 else lines


def _signed_size(number: float) -> str:
    return f"{'-' if number < 0 else '+'}{size(round(abs(number)))}"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
