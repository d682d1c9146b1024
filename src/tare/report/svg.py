"""SVG charts: their parts, and rows of bars. Written by hand: rectangles need no library, and every text in the
picture can be searched."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from tare.system.text import ending, one_line

FONT = "font-family='system-ui, sans-serif'"
PAPER, INK, FAINT, GRID, LINE = "white", "#222", "#666", "#e4e4e4", "#aaa"
# Replacements where the reader's system is dark; segments keep their colours.
DARK = {PAPER: "#16181d", INK: "#e8e8e8", FAINT: "#a6a6a6", GRID: "#33363d", LINE: "#777"}
WIDTH = 900
LONGEST_LABEL, LONGEST_HEADING, LONGEST_LINE = 48, 80, 130
MOST_NOTE_LINES = 8
# Where the rows of a chart begin, and where its bars end at the latest: without and with columns of text.
TOP, BARS_END, BARS_END_BESIDE_COLUMNS = 72, 750, 590
# One colour a segment, the same on the terminal and in charts, after the colour-blind safe palette of Okabe and
# Ito (2008), with shades of green for what the device computes.
COLOURS = {
    "roofline": "#00573f",
    "kernel inefficiency": "#009e73",
    "unfused traffic": "#7fd6b8",
    "kernels": "#009e73",
    "communication": "#56b4e9",
    "launch gaps": "#f0a202",
    "dispatch": "#0072b2",
    "allocation": "#8c6bb1",
    "python": "#d55e00",
    "data loading": "#a6761d",
    "synchronisation": "#cc79a7",
    "movement": "#e31a1c",
    "tail": "#999999",
    "host waiting": "#b8b08d",
    "work before the trace": "#c9c9c9",
    "not known": "#dddddd",
    "active": "#009e73",
    "communicating": "#56b4e9",
    "idle": "#bbbbbb",
}


def colour(name: str) -> str:
    return COLOURS.get(name, "#666666")


def box(x: float, y: float, width: float, height: float, fill: str, tip: str) -> str:
    title = f"<title>{_safe(tip)}</title>" if tip else ""
    shape = f"x='{x:.1f}' y='{y:.1f}' width='{max(width, 0):.1f}' height='{max(height, 0):.1f}'"
    return f"<rect {shape} fill='{fill}'>{title}</rect>"


def text(
    x: float, y: float, words: str, anchor: str = "start", size: int = 13, weight: str = "400", fill: str = INK
) -> str:
    place = (
        f"x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='{size}' font-weight='{weight}' fill='{fill}'"
    )
    return f"<text {place}>{_safe(words)}</text>"


def circle(x: float, y: float, radius: float, fill: str, tip: str) -> str:
    title = f"<title>{_safe(tip)}</title>" if tip else ""
    return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius}' fill='{fill}' fill-opacity='.7'>{title}</circle>"


def line(x1: float, y1: float, x2: float, y2: float, stroke: str, width: float = 1) -> str:
    ends = f"x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}'"
    thick = f" stroke-width='{width}'" if width != 1 else ""
    return f"<line {ends} stroke='{stroke}'{thick}/>"


class Chart(NamedTuple):
    height: float
    body: list[str]


class Bar(NamedTuple):
    """One row. A segment has its length, its colour and its tip; the first begins at `start`, and `text` stands
    behind the last one. `cells` are the texts of the columns at the right. `interval` is drawn across the bar."""

    label: str
    segments: Sequence[tuple[float, str, str]]
    text: str = ""
    start: float = 0.0
    cells: Sequence[str] = ()
    interval: tuple[float, float] | None = None


def bar_chart(
    title: str,
    subtitle: str,
    bars: Sequence[Bar],
    longest: float,
    *,
    ticks: Mapping[float, str] | None = None,
    columns: Mapping[str, int] | None = None,
    legend: Mapping[str, tuple[str, str]] | None = None,
    notes: Iterable[str] = (),
    row_height: int = 30,
) -> Chart:
    """Rows of bars on one axis, which is `longest` long. `columns` has the right edge of each column of text by
    its head, `legend` the colour and the tip of each name. A note is shown whole or not at all."""
    left, right = room_for(bar.label for bar in bars), BARS_END_BESIDE_COLUMNS if columns else BARS_END
    scale = (right - left) / longest if longest else 0.0
    bottom = TOP + row_height * len(bars)
    body = heading(title, subtitle)
    body += [text(x, TOP - 8, head, anchor="end", size=11, fill=FAINT) for head, x in (columns or {}).items()]
    for value, label in (ticks or {}).items():
        x = left + value * scale
        body += [line(x, TOP, x, bottom, GRID), text(x, bottom + 16, label, anchor="middle", size=11, fill=FAINT)]
    body.append(line(left, TOP, left, bottom, LINE))
    for number, bar in enumerate(bars):
        top, middle = TOP + row_height * number, TOP + row_height * (number + 0.5)
        body.append(text(left - 10, middle + 4, ending(bar.label, LONGEST_LABEL), anchor="end", size=12))
        end = left + bar.start * scale
        for length, fill, tip in bar.segments:
            body.append(box(end, top + 4, length * scale, row_height - 8, fill, tip))
            end += length * scale
        if bar.interval:
            low, high = (left + max(value, 0.0) * scale for value in bar.interval)
            body.append(line(low, middle, min(high, right), middle, INK))
            body += [line(x, middle - 4, x, middle + 4, INK) for x in (low, high) if left < x <= right + 1]
        body.append(text(end + 6, middle + 4, bar.text, size=12))
        for cell, x in zip(bar.cells, (columns or {}).values(), strict=False):
            body.append(text(x, middle + 4, cell, anchor="end", size=12))
    x, y = left, bottom + (40 if ticks else 20)
    for name, (fill, tip) in (legend or {}).items():
        width = 35 + 6 * len(name)
        x, y = (x, y) if x + width < WIDTH else (left, y + 18)
        body += [box(x, y - 9, 10, 10, fill, tip), text(x + 15, y, name, size=11, fill=FAINT)]
        x += width
    lines: list[str] = []
    for note in notes:
        folded = textwrap.wrap(note, LONGEST_LINE, break_on_hyphens=False)
        lines += folded if len(lines) + len(folded) <= MOST_NOTE_LINES else []
    body += [text(16, y + 26 + 16 * i, words, size=11, fill=FAINT) for i, words in enumerate(lines)]
    return Chart(y + 16 + (10 + 16 * len(lines) if lines else 0), body)


def room_for(labels: Iterable[str]) -> int:
    """The width of the names at the left of a chart: a letter of their size is seldom wider than seven points."""
    return 24 + 7 * min(max(map(len, labels), default=0), LONGEST_LABEL)


def heading(title: str, subtitle: str) -> list[str]:
    size = 17 if len(title) <= LONGEST_HEADING else 13
    return [text(16, 26, title, size=size, weight="600"), text(16, 46, subtitle, fill=FAINT, size=12)]


def stacked(charts: Iterable[Chart]) -> str:
    """Charts, one below the other."""
    body, top = [], 0.0
    for chart in charts:
        body += [f"<g transform='translate(0 {top:.0f})'>", *chart.body, "</g>"]
        top += chart.height
    return svg(WIDTH, top, body)


def svg(width: float, height: float, body: Sequence[str]) -> str:
    view = f"viewBox='0 0 {width:.0f} {height:.0f}' width='{width:.0f}'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' {view} {FONT}>"
    dark = "".join(f"[fill='{a}']{{fill:{b}}}[stroke='{a}']{{stroke:{b}}}" for a, b in DARK.items())
    style = f"<style>@media (prefers-color-scheme:dark){{{dark}}}</style>"
    background = f"<rect width='{width:.0f}' height='{height:.0f}' fill='{PAPER}'/>"
    return "\n".join([head, style, background, *body, "</svg>"])


def _safe(words: str) -> str:
    """A record or trace from elsewhere may contain any text, also control characters that XML does not allow."""
    return escape(one_line(words))
