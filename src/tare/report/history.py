"""Histories for the terminal."""

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tare.guard.history import History, Jump
from tare.report.bisect import change, short
from tare.report.figures import scale_of
from tare.report.numbers import decimals, size, unit_of
from tare.report.plot import is_flat, plot, shown_range, sparkline
from tare.report.table import FittingTable, Sized
from tare.report.terminal import key_text

HEIGHT = 11
# From this width on the interval of a step stands beside it.
ROOM_FOR_INTERVALS = 80
# Room for the axis in front of a plot.
AXIS = 12
# Beyond these a figure is nobody's measurement, and its digits would fill lines.
LEAST_SECONDS, MOST_SECONDS, MOST_BYTES = 1e-12, 1e7, 1e18


def histories_view(histories: Sequence[History]) -> RenderableType:
    if len(histories) == 1:
        return history_view(histories[0])
    parts: list[RenderableType] = []
    for history in histories:
        parts += [*_head(history), _line(history), *_steps(history), Text("")]
    return Group(*parts)


def _line(history: History) -> RenderableType:
    values = [point.value for point in history.points]
    return Sized(lambda width: Text("  " + sparkline(values, max(min(80, width - 2), 1))))


def history_view(history: History) -> RenderableType:
    return Group(*_head(history), Sized(lambda width: _plot(history, width)), *_steps(history))


def _plot(history: History, width: int) -> RenderableType:
    values = [point.value for point in history.points]
    fitted = fitted_values(history)
    low, high = shown_range(values, fitted)
    labels = axis(low, high, HEIGHT, history.unit)
    lines = plot(values, fitted, [step.at for step in history.steps], labels, width)
    first, last = history.points[0].created[:10], history.points[-1].created[:10]
    gap = " " * max(len(lines[-1]) - AXIS - len(last) - 10, 1)
    foot = Text(f"{'':>{AXIS - 1}}{first}{gap}{last}", style="dim")
    return Group(*(Text(line) for line in lines), foot)


def fitted_values(history: History) -> list[float]:
    """The fitted line at every point."""
    found: list[float] = []
    for start, stop, first, last in history.pieces:
        n = stop - start
        found += [first + (last - first) * i / max(n - 1, 1) for i in range(n)]
    return found


def axis(low: float, high: float, count: int, unit: str) -> list[str]:
    """Labels from the top to the bottom, with digits enough to tell them apart: memory seldom changes in its first
    four. Where all points are alike only the middle, where they are drawn, has one."""
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
    """A value in its unit, to four digits; one that other tools alone can give has an exponent."""
    if unit == "B" and value < MOST_BYTES:
        return size(round(value))
    if unit == "s" and LEAST_SECONDS <= value < MOST_SECONDS:
        scale, name = unit_of(value)
        return f"{value / scale:.{decimals(value / scale, 0)}f} {name}"
    return f"{value:.4g} {unit}".strip()


def span(step: Jump) -> str:
    """Where a step came in: labels where there are any and they differ, and dates."""
    dates = f"{_minute(step.after_date)} and {_minute(step.until_date)}"
    a, b = (label.removesuffix("+changes") for label in (step.after_label, step.until_label))
    return f"between {short(a)} and {short(b)} ({dates})" if a and b and a != b else f"between {dates}"


def extent(history: History) -> list[str]:
    """How many points there are, and what they differ by; of one point nobody knows."""
    count = len(history.points)
    return [f"{count} points", f"noise {history.noise:.1%}"] if count > 1 else [f"{count} point"]


def _head(history: History) -> list[RenderableType]:
    facts = [history.metric, *extent(history)]
    if history.correlation >= 0.1:
        facts.append(f"correlation {history.correlation:.1f}")
    if history.source != "tare":
        facts.append(f"from {history.source}")
    if history.left_out:
        facts.append(f"{history.left_out} records left out (failed, or different)")
    return [key_text(history.name, "bold"), Text(" · ".join(facts), style="dim")]


def _steps(history: History) -> list[RenderableType]:
    if not history.long_enough:
        return [Text(f"  too short to judge: a step needs {history.fewest} points", style="yellow")]
    if not history.steps:
        return [Text("  no step", style="green")]
    parts: list[RenderableType] = [Sized(lambda width: _table(history, width))]
    for step in history.steps:
        parts += [Text(f"  changed at {_minute(step.until_date)}: {line}", style="dim") for line in step.changed]
    return parts


def _table(history: History, width: int) -> FittingTable:
    """Where there is little room an interval stands under its step."""
    rows = []
    for step in history.steps:
        told = change(step.ratio, step.low, step.high)
        told = told if width >= ROOM_FOR_INTERVALS else told.replace(" (", "\n(")
        style = "red" if step.now > step.before else "green"
        figures = (figure(step.before, history.unit), figure(step.now, history.unit))
        rows.append(("▲", Text(told, style=style), *figures, span(step)))
    return FittingTable(("", "step", "from", "to", "where"), rows, folds={"where": 12})


def _minute(date: str) -> str:
    return date[:16].replace("T", " ")
