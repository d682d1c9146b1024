"""The parts of SVG charts. Written by hand: rectangles need no library, and every text in the picture can be
searched."""

from collections.abc import Sequence
from html import escape

from tare.system.text import one_line

FONT = "font-family='system-ui, sans-serif'"
PAPER, INK, FAINT, GRID, LINE = "white", "#222", "#666", "#e4e4e4", "#aaa"
# Replacements where the reader's system is dark; segments keep their colours.
DARK = {PAPER: "#16181d", INK: "#e8e8e8", FAINT: "#a6a6a6", GRID: "#33363d", LINE: "#777"}
WIDTH = 900
LONGEST_LABEL = 48
# One colour a segment, the same on the terminal and in charts, after the colour-blind safe palette of Okabe and
# Ito (2008), with shades of green for what the device computes.
COLOURS = {
    "roofline": "#00573f",
    "kernel inefficiency": "#009e73",
    "unfused traffic": "#7fd6b8",
    "kernels": "#009e73",
    "launch gaps": "#f0a202",
    "dispatch": "#0072b2",
    "allocation": "#8c6bb1",
    "python": "#d55e00",
    "data loading": "#a6761d",
    "synchronisation": "#cc79a7",
    "movement": "#e31a1c",
    "tail": "#999999",
    "active": "#009e73",
    "idle": "#bbbbbb",
}


def colour(name: str) -> str:
    return COLOURS.get(name, "#666666")


def room_for(labels: Sequence[str]) -> int:
    """The width of the names at the left of a chart: a letter of their size is seldom wider than seven points."""
    return 24 + 7 * min(max(map(len, labels), default=0), LONGEST_LABEL)


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


def line(x1: float, y1: float, x2: float, y2: float, stroke: str) -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{stroke}'/>"


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
