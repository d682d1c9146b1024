"""Histories: on the terminal, and as charts."""

import math
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from tare.guard.history import History, HistoryChange
from tare.report.bisect import short
from tare.report.numbers import change_text, decimals, scale_of, size, unit_of
from tare.report.page import PageChart, PagePart, render_page
from tare.report.plot import is_flat, plot, shown_range, sparkline
from tare.report.svg import FAINT, GRID, INK, box, circle, heading, line, svg, text
from tare.report.view import Cell, Drawing, FittingTable, View

# The lines of a plot, and the width of the axis before it.
LINES, AXIS = 11, 12
# Figures beyond these are printed with an exponent: their digits would fill lines.
MIN_SECONDS, MAX_SECONDS, MAX_BYTES = 1e-12, 1e7, 1e18

# The size of a chart, and its margins.
WIDTH, HEIGHT = 960, 320
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 62, 44
TICKS = 5
LONGEST_NAME = 130
# Series of more than MANY points are drawn with smaller dots.
DOT, SMALL_DOT, MANY = 2.4, 1.1, 600
POINTS, SLOWER, FASTER = "#5b7aa6", "#c0392b", "#1e8449"


def histories_view(histories: Sequence[History]) -> View:
    """A plot of one history, a line of each of several; a page has the chart of each."""
    return View().show(*(_history(history, is_alone=len(histories) == 1) for history in histories))


def _history(history: History, is_alone: bool) -> View:
    facts = [history.metric, *extent(history)]
    if history.correlation >= 0.1:
        facts.append(f"correlation {history.correlation:.1f}")
    if history.source != "tare":
        facts.append(f"from {history.source}")
    if history.skipped:
        facts.append(f"{history.skipped} records skipped (failed, or different)")
    view = View().add("key", history.name).add("faint", " · ".join(facts))

    def draw(width: int) -> Text:
        if is_alone:
            return _plot(history, width)
        return Text("  " + sparkline([point.value for point in history.points], max(min(80, width - 2), 1)))

    view.put(Drawing(draw, svg=lambda: chart_svg(history)))
    if not history.long_enough:
        return view.add("warning", f"too short to judge: a change point needs {history.min_points} points")
    view.add("good", "" if history.change_points else "no change point")
    rows = [_change_cells(history, change) for change in history.change_points]
    view.put(FittingTable(rows, words=("", "from", "to"), folds={"change": 0, "when": 12}))
    for change in history.change_points:
        changed = f"changed at {_minute(change.until_date)}"
        view.add("aside", *(f"{changed}: {difference}" for difference in change.environment_changes))
    return view


def _plot(history: History, width: int) -> Text:
    values = [point.value for point in history.points]
    fitted = fitted_values(history)
    labels = axis(*shown_range(values, fitted), LINES, history.unit)
    lines = plot(values, fitted, [change.position for change in history.change_points], labels, width)
    first, last = history.points[0].created[:10], history.points[-1].created[:10]
    gap = " " * max(len(lines[-1]) - AXIS - len(last) - 10, 1)
    return Text("\n".join(lines)).append(f"\n{'':>{AXIS - 1}}{first}{gap}{last}", style="dim")


def _change_cells(history: History, change: HistoryChange) -> dict[str, Cell]:
    style = "red" if change.now > change.before else "green"
    return {
        "": "▲",
        "change": Text(change_text(change.ratio, change.low, change.high), style=style),
        "from": figure(change.before, history.unit),
        "to": figure(change.now, history.unit),
        "when": date_range(change),
    }


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


def chart_html(histories: Sequence[History]) -> str:
    """A page with every history and its change points in words."""
    parts: list[PagePart] = []
    for number, history in enumerate(histories):
        view = _history(history, is_alone=False)
        # The script draws it; the other parts are words.
        view.parts = [part for part in view.parts if not isinstance(part, Drawing)]
        parts += [PageChart(f"history-{number}", history.name, "", history_figure(history)), view]
    return render_page("tare history", *parts)


def history_figure(history: History) -> dict[str, Any]:
    """What the script of the pages draws."""
    return {
        "kind": "history",
        "title": history.metric,
        "unit": history.unit,
        "points": [
            {"at": point.created, "value": point.value, "low": None, "high": None, "label": point.label}
            for point in history.points
        ],
        "changes": [
            {
                "from": change.after_date,
                "until": change.until_date,
                "text": change_text(change.ratio),
                "worse": change.now > change.before,
            }
            for change in history.change_points
        ],
    }


def chart_svg(history: History) -> str:
    values = [point.value for point in history.points]
    low, high = shown_range(values, fitted_values(history))
    pad = (high * 0.05 or 1.0) if is_flat(low, high) else (high - low) * 0.08
    low, high = low - pad, high + pad
    n, bottom = len(values), HEIGHT - BOTTOM

    def x(index: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (index + 0.5) / n

    def y(value: float) -> float:
        return TOP + (bottom - TOP) * (high - min(max(value, low), high)) / (high - low)

    body = heading(history.name[:LONGEST_NAME], " · ".join([history.metric, *extent(history)]))
    for i, label in enumerate(reversed(axis(low, high, TICKS, history.unit))):
        height = y(low + (high - low) * i / (TICKS - 1))
        body.append(line(LEFT, height, WIDTH - RIGHT, height, GRID))
        body.append(text(LEFT - 8, height + 4, label, anchor="end", size=12, fill=FAINT))
    for change in history.change_points:
        start, end = x(change.earliest - 1), x(change.latest)
        fill = SLOWER if change.now > change.before else FASTER
        shade = box(start, TOP, max(end - start, 3), bottom - TOP, fill, date_range(change))
        body.append(f"<g fill-opacity='.16'>{shade}</g>")
        # Near the right edge the text is left of its change.
        place, anchor = (start - 6, "end") if start > WIDTH * 0.8 else (end + 6, "start")
        body.append(text(place, TOP + 12, change_text(change.ratio), anchor=anchor, size=12, weight="600"))
    for i, point in enumerate(history.points):
        # A tip for every one of many points would make the file ten times as large.
        tip = "" if n > MANY else f"{point.created[:16]} {point.label[:40]} {figure(point.value, history.unit)}"
        body.append(circle(x(i), y(point.value), SMALL_DOT if n > MANY else DOT, POINTS, tip))
    for start, stop, first, last in history.segments:
        body.append(line(x(start), y(first), x(stop - 1), y(last), INK, width=2))
    first_day, last_day = (point.created[:10] for point in (history.points[0], history.points[-1]))
    body.append(text(LEFT, HEIGHT - 18, first_day, size=12, fill=FAINT))
    body.append(text(WIDTH - RIGHT, HEIGHT - 18, last_day, anchor="end", size=12, fill=FAINT))
    return svg(WIDTH, HEIGHT, body)


def _minute(date: str) -> str:
    return date[:16].replace("T", " ")
