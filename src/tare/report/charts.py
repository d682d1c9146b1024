"""Charts as SVG: the waterfall of a step, a ladder of them side by side, and the breakdowns of a group.

Written out by hand: a picture of rectangles needs no library, stays small, and every text in it can be searched.
"""

import re
from collections.abc import Sequence
from html import escape

from tare.report.colours import colour
from tare.report.explain import percent, shorten
from tare.report.numbers import seconds, unit_of
from tare.trace.group import PARTS, Bar
from tare.trace.waterfall import MEANING, ORDER, Waterfall

FONT = "font-family='system-ui, sans-serif'"
PAPER, INK, FAINT, GRID, LINE = "white", "#222", "#666", "#e4e4e4", "#aaa"
# Where the reader's system is dark: what stands on the paper turns light, the segments keep their colours.
DARK = {PAPER: "#16181d", INK: "#e8e8e8", FAINT: "#a6a6a6", GRID: "#33363d", LINE: "#777"}
WIDTH = 900
LONGEST_LABEL = 48
# Where there is no device, operators do what kernels do on one.
ON_HOST = {
    "kernels": "operators compute (no floor: nothing was counted, or no peaks are known)",
    "kernel inefficiency": "operators that take longer than their operations and bytes would",
    "unfused traffic": "results written to memory and read again because operators are not fused",
}
ROW = 30


def waterfall_svg(fall: Waterfall, on_host: bool = False) -> str:
    """One bar a segment, each beginning where the one before it ended; gross at the bottom. `on_host` where there
    is no device, and operators compute."""
    left, right, top = 170, 150, 64
    scale = (WIDTH - left - right) / fall.gross
    height = top + ROW * (len(fall.segments) + 1) + 34
    body = [
        _text(16, 26, fall.title, size=17, weight="600"),
        _text(16, 46, _subtitle(fall, on_host), fill=FAINT, size=12),
    ]
    body += _grid(fall.gross, scale, left, top, height - 30, fall.profiled)
    at = 0
    for i, segment in enumerate(fall.segments):
        y = top + ROW * i
        x = left + at * scale
        body.append(_text(left - 10, y + 19, segment.name, anchor="end"))
        tip = _meaning(segment.name, on_host)
        body.append(_box(x, y + 4, max(segment.ns * scale, 1), ROW - 8, colour(segment.name), tip))
        end = x + max(segment.ns * scale, 1)
        body.append(_text(end + 6, y + 19, _amount(segment.ns, fall), size=12))
        at += segment.ns
        if i + 1 < len(fall.segments):
            x = left + at * scale
            body.append(f"<line x1='{x:.1f}' y1='{y + 4}' x2='{x:.1f}' y2='{y + ROW + 4}' stroke='{LINE}'/>")
    y = top + ROW * len(fall.segments)
    body.append(
        _text(left - 10, y + 19, "profiled step" if fall.profiled else "gross", anchor="end", weight="600")
    )
    body.append(_box(left, y + 4, fall.gross * scale, ROW - 8, INK, "measured without a profiler"))
    body.append(_text(left + fall.gross * scale + 6, y + 19, _amount(fall.gross, fall), size=12, weight="600"))
    return _svg(WIDTH, height, body)


def ladder_svg(falls: Sequence[Waterfall], names: Sequence[str], title: str, on_host: bool = False) -> str:
    """One column a rung, on one scale of time, with a legend of the segments that occur."""
    present = [name for name in ORDER if any(fall.find(name) for fall in falls)]
    left, top, plot, foot = 70, 60, 360, 60
    legend = 220
    step = max(90, min(150, (WIDTH - left - legend) / max(len(falls), 1)))
    width = left + step * len(falls) + legend
    most = max(fall.gross for fall in falls)
    scale = plot / most
    body = [_text(16, 28, title, size=17, weight="600")]
    for tick in _ticks(most):
        y = top + plot - tick * scale
        body.append(
            f"<line x1='{left}' y1='{y:.1f}' x2='{left + step * len(falls):.0f}' y2='{y:.1f}' stroke='{GRID}'/>"
        )
        body.append(_text(left - 8, y + 4, _tick(tick, most), anchor="end", size=11, fill=FAINT))
    for i, (fall, name) in enumerate(zip(falls, names, strict=True)):
        x, y = left + step * i + step * 0.15, float(top + plot)
        for segment in fall.segments:
            tall = segment.ns * scale
            y -= tall
            tip = f"{segment.name}: {_amount(segment.ns, fall)}"
            body.append(_box(x, y, step * 0.7, tall, colour(segment.name), tip))
        body.append(
            _text(x + step * 0.35, y - 6, seconds(fall.gross / 1e9), anchor="middle", size=12, weight="600")
        )
        for line, part in enumerate(_wrapped(name, int(step / 7))):
            body.append(_text(x + step * 0.35, top + plot + 20 + 15 * line, part, anchor="middle", size=12))
    for i, name in enumerate(reversed(present)):
        y = top + 22 * i
        body.append(_box(width - legend + 24, y, 13, 13, colour(name), _meaning(name, on_host)))
        body.append(_text(width - legend + 44, y + 11, name, size=12))
    return _svg(width, top + plot + foot, body)


def breakdown_svg(bars: Sequence[Bar], title: str) -> str:
    """One bar a workload, divided into active, movement and idle (figures 1 and 2 of the TorchBench paper)."""
    several = len({one.rung for one in bars}) > 1
    labels = [f"{one.workload} on {one.rung}" if several else one.workload for one in bars]
    # A letter of this size is seldom wider than seven points.
    left, top = 24 + 7 * min(max(map(len, labels)), LONGEST_LABEL), 70
    plot = WIDTH - left - 80
    body = [_text(16, 26, title, size=17, weight="600")]
    for i, part in enumerate(PARTS):
        body += [_box(left + 130 * i, 40, 13, 13, colour(part), ""), _text(left + 130 * i + 20, 51, part, size=12)]
    for i, one in enumerate(bars):
        y, x = top + 24 * i, float(left)
        body.append(_text(left - 10, y + 14, shorten(labels[i], LONGEST_LABEL), anchor="end", size=12))
        for part in PARTS:
            share = getattr(one, part)
            body.append(_box(x, y, share * plot, 18, colour(part), f"{part} {100 * share:.1f} %"))
            x += share * plot
        body.append(_text(left + plot + 8, y + 14, f"{100 * one.active:.0f} %", size=12, fill=FAINT))
    return _svg(WIDTH, top + 24 * len(bars) + 16, body)


def _wrapped(name: str, longest: int) -> list[str]:
    """A name in lines, broken behind its colons and hyphens where it is too long for its column."""
    lines = [""]
    for part in re.split(r"(?<=[:\-_ ])", name):
        if lines[-1] and len(lines[-1]) + len(part) > longest:
            lines.append("")
        lines[-1] += part
    return lines


def _meaning(name: str, on_host: bool) -> str:
    return ON_HOST.get(name, MEANING[name]) if on_host else MEANING[name]


def _subtitle(fall: Waterfall, on_host: bool) -> str:
    if fall.profiled:
        return "shares of a profiled step: how long it takes without a profiler is not known"
    who = "operators compute" if on_host else "the device computes"
    return f"one step takes {seconds(fall.gross / 1e9)}; {who} for {seconds(fall.net / 1e9)} of it"


def _amount(ns: int, fall: Waterfall) -> str:
    share = percent(ns / fall.gross) if fall.gross else ""
    return share if fall.profiled else f"{seconds(ns / 1e9)} · {share}"


def _grid(gross: int, scale: float, left: float, top: float, bottom: float, profiled: bool) -> list[str]:
    lines = []
    ticks = [gross * i // 4 for i in range(5)] if profiled else _ticks(gross)
    for tick in ticks:
        x = left + tick * scale
        shown = f"{100 * tick / gross:.0f} %" if profiled else _tick(tick, gross)
        lines.append(f"<line x1='{x:.1f}' y1='{top}' x2='{x:.1f}' y2='{bottom:.1f}' stroke='{GRID}'/>")
        lines.append(_text(x, bottom + 16, shown, anchor="middle", size=11, fill=FAINT))
    return lines


def _ticks(most: int) -> list[int]:
    """Four to eight round numbers from zero up."""
    size = 10 ** (len(str(most)) - 1)
    step = next((s for s in (size // 10, size // 5, size // 2, size, 2 * size) if s and most / s <= 8), size)
    return list(range(0, most + 1, max(step, 1)))


def _tick(ns: int, most: int) -> str:
    scale, unit = unit_of(most / 1e9)
    return f"{ns / 1e9 / scale:.3g} {unit}"


def _box(x: float, y: float, width: float, height: float, fill: str, tip: str) -> str:
    title = f"<title>{escape(tip)}</title>" if tip else ""
    shape = f"x='{x:.1f}' y='{y:.1f}' width='{max(width, 0):.1f}' height='{max(height, 0):.1f}'"
    return f"<rect {shape} fill='{fill}'>{title}</rect>"


def _text(
    x: float, y: float, text: str, anchor: str = "start", size: int = 13, weight: str = "400", fill: str = INK
) -> str:
    place = (
        f"x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='{size}' font-weight='{weight}' fill='{fill}'"
    )
    return f"<text {place}>{escape(text)}</text>"


def _svg(width: float, height: float, body: Sequence[str]) -> str:
    box = f"viewBox='0 0 {width:.0f} {height:.0f}' width='{width:.0f}'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' {box} {FONT}>"
    dark = "".join(f"[fill='{a}']{{fill:{b}}}[stroke='{a}']{{stroke:{b}}}" for a, b in DARK.items())
    style = f"<style>@media (prefers-color-scheme:dark){{{dark}}}</style>"
    back = f"<rect width='{width:.0f}' height='{height:.0f}' fill='{PAPER}'/>"
    return "\n".join([head, style, back, *body, "</svg>"])
