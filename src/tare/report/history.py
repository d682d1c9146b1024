"""Histories for the terminal."""

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tare.guard.history import History, HistoryChange
from tare.report.bisect import change_text, short
from tare.report.figures import scale_of
from tare.report.numbers import decimals, size, unit_of
from tare.report.plot import is_flat, plot, shown_range, sparkline
from tare.report.table import FittingTable, Sized
from tare.report.terminal import key_text

HEIGHT = 11
# From this width on the interval of a change is on the same line.
MIN_INTERVAL_WIDTH = 80
# Room for the axis in front of a plot.
AXIS = 12
# Figures beyond these are printed with an exponent: their digits would fill lines.
MIN_SECONDS, MAX_SECONDS, MAX_BYTES = 1e-12, 1e7, 1e18


def histories_view(histories: Sequence[History]) -> RenderableType:
    if len(histories) == 1:
        return history_view(histories[0])
    parts: list[RenderableType] = []
    for history in histories:
        parts += [*_head(history), _line(history), *_change_points(history), Text("")]
    return Group(*parts)


def _line(history: History) -> RenderableType:
    values = [point.value for point in history.points]
    return Sized(lambda width: Text("  " + sparkline(values, max(min(80, width - 2), 1))))


def history_view(history: History) -> RenderableType:
    return Group(*_head(history), Sized(lambda width: _plot(history, width)), *_change_points(history))


def _plot(history: History, width: int) -> RenderableType:
    values = [point.value for point in history.points]
    fitted = fitted_values(history)
    low, high = shown_range(values, fitted)
    labels = axis(low, high, HEIGHT, history.unit)
    lines = plot(values, fitted, [change.position for change in history.change_points], labels, width)
    first, last = history.points[0].created[:10], history.points[-1].created[:10]
    gap = " " * max(len(lines[-1]) - AXIS - len(last) - 10, 1)
    foot = Text(f"{'':>{AXIS - 1}}{first}{gap}{last}", style="dim")
    return Group(*(Text(line) for line in lines), foot)


def fitted_values(history: History) -> list[float]:
    """The fitted line at every point."""
    fitted: list[float] = []
    for start, stop, first, last in history.segments:
        n = stop - start
        fitted += [first + (last - first) * i / max(n - 1, 1) for i in range(n)]
    return fitted


def axis(low: float, high: float, count: int, unit: str) -> list[str]:
    """Labels from the top to the bottom, with enough digits to tell them apart: memory seldom changes in its first
    four. Where all points are equal only the middle, where they are drawn, has a label."""
    if is_flat(low, high):
        return [figure(high, unit) if i == count // 2 else "" for i in range(count)]
    values = [high - (high - low) * i / (count - 1) for i in range(count)]
    labels = [figure(value, unit) for value in values]
    if len(set(labels)) == count:
        return labels
    scale, name = scale_of(high, unit)
    digits = 2 + math.floor(math.log10(high * (count - 1) / (high - low)))
    return [f"{value / scale:#.{digits}g} {name}".strip() for value in values]


def figure(value: float, unit: str) -> str:
    """A value in its unit, to four digits."""
    if unit == "B" and value < MAX_BYTES:
        return size(round(value))
    if unit == "s" and MIN_SECONDS <= value < MAX_SECONDS:
        scale, name = unit_of(value)
        return f"{value / scale:.{decimals(value / scale, 0)}f} {name}"
    return f"{value:.4g} {unit}".strip()


def date_range(change: HistoryChange) -> str:
    """When a change happened: labels, where there are any and they differ, and dates."""
    dates = f"{_minute(change.after_date)} and {_minute(change.until_date)}"
    a, b = (label.removesuffix("+changes") for label in (change.after_label, change.until_label))
    return f"between {short(a)} and {short(b)} ({dates})" if a and b and a != b else f"between {dates}"


def extent(history: History) -> list[str]:
    """The number of points and, if there are several, their noise."""
    count = len(history.points)
    return [f"{count} points", f"noise {history.noise:.1%}"] if count > 1 else [f"{count} point"]


def _head(history: History) -> list[RenderableType]:
    facts = [history.metric, *extent(history)]
    if history.correlation >= 0.1:
        facts.append(f"correlation {history.correlation:.1f}")
    if history.source != "tare":
        facts.append(f"from {history.source}")
    if history.skipped:
        facts.append(f"{history.skipped} records skipped (failed, or different)")
    return [key_text(history.name, "bold"), Text(" · ".join(facts), style="dim")]


def _change_points(history: History) -> list[RenderableType]:
    if not history.long_enough:
        return [Text(f"  too short to judge: a change point needs {history.min_points} points", style="yellow")]
    if not history.change_points:
        return [Text("  no change point", style="green")]
    parts: list[RenderableType] = [Sized(lambda width: _table(history, width))]
    for change in history.change_points:
        parts += [
            Text(f"  changed at {_minute(change.until_date)}: {line}", style="dim")
            for line in change.environment_changes
        ]
    return parts


def _table(history: History, width: int) -> FittingTable:
    """On a narrow terminal an interval is under its change."""
    rows = []
    for change in history.change_points:
        text = change_text(change.ratio, change.low, change.high)
        text = text if width >= MIN_INTERVAL_WIDTH else text.replace(" (", "\n(")
        style = "red" if change.now > change.before else "green"
        figures = (figure(change.before, history.unit), figure(change.now, history.unit))
        rows.append(("▲", Text(text, style=style), *figures, date_range(change)))
    return FittingTable(("", "change", "from", "to", "when"), rows, folds={"when": 12})


def _minute(date: str) -> str:
    return date[:16].replace("T", " ")
