"""Charts of what was explained: the waterfall of a step, a ladder of them, the breakdowns of a group."""

import re
from collections.abc import Sequence

from tare.report.colours import colour
from tare.report.explain import percent
from tare.report.numbers import seconds, unit_of
from tare.report.svg import FAINT, GRID, INK, LINE, LONGEST_LABEL, WIDTH, box, line, room_for, svg, text
from tare.system.text import ending
from tare.trace.group import PARTS, WorkloadShares
from tare.trace.waterfall import MEANING, ORDER, Waterfall

# Where there is no device, operators do what kernels do on one.
ON_HOST = {
    "kernels": "operators compute (no roofline: nothing was counted, or no peaks are known)",
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
        text(16, 26, fall.title, size=17, weight="600"),
        text(16, 46, _subtitle(fall, on_host), fill=FAINT, size=12),
    ]
    body += _grid(fall.gross, scale, left, top, height - 30, fall.profiled)
    at = 0
    for i, segment in enumerate(fall.segments):
        y = top + ROW * i
        x = left + at * scale
        body.append(text(left - 10, y + 19, segment.name, anchor="end"))
        tip = _meaning(segment.name, on_host)
        body.append(box(x, y + 4, max(segment.ns * scale, 1), ROW - 8, colour(segment.name), tip))
        end = x + max(segment.ns * scale, 1)
        body.append(text(end + 6, y + 19, _amount(segment.ns, fall), size=12))
        at += segment.ns
        if i + 1 < len(fall.segments):
            x = left + at * scale
            body.append(line(x, y + 4, x, y + ROW + 4, LINE))
    y = top + ROW * len(fall.segments)
    body.append(text(left - 10, y + 19, "profiled step" if fall.profiled else "gross", anchor="end", weight="600"))
    body.append(box(left, y + 4, fall.gross * scale, ROW - 8, INK, "measured without a profiler"))
    body.append(text(left + fall.gross * scale + 6, y + 19, _amount(fall.gross, fall), size=12, weight="600"))
    return svg(WIDTH, height, body)


def ladder_svg(falls: Sequence[Waterfall], names: Sequence[str], title: str, on_host: bool = False) -> str:
    """One column a rung, on one scale of time, with a legend of the segments that occur."""
    present = [name for name in ORDER if any(fall.find(name) for fall in falls)]
    left, top, plot, foot = 70, 60, 360, 60
    legend = 220
    step = max(90, min(150, (WIDTH - left - legend) / max(len(falls), 1)))
    width = left + step * len(falls) + legend
    most = max(fall.gross for fall in falls)
    scale = plot / most
    body = [text(16, 28, title, size=17, weight="600")]
    for tick in _ticks(most):
        y = top + plot - tick * scale
        body.append(line(left, y, left + step * len(falls), y, GRID))
        body.append(text(left - 8, y + 4, _tick(tick, most), anchor="end", size=11, fill=FAINT))
    for i, (fall, name) in enumerate(zip(falls, names, strict=True)):
        x, y = left + step * i + step * 0.15, float(top + plot)
        for segment in fall.segments:
            tall = segment.ns * scale
            y -= tall
            tip = f"{segment.name}: {_amount(segment.ns, fall)}"
            body.append(box(x, y, step * 0.7, tall, colour(segment.name), tip))
        body.append(
            text(x + step * 0.35, y - 6, seconds(fall.gross / 1e9), anchor="middle", size=12, weight="600")
        )
        for row, part in enumerate(_wrapped(name, int(step / 7))):
            body.append(text(x + step * 0.35, top + plot + 20 + 15 * row, part, anchor="middle", size=12))
    for i, name in enumerate(reversed(present)):
        y = top + 22 * i
        body.append(box(width - legend + 24, y, 13, 13, colour(name), _meaning(name, on_host)))
        body.append(text(width - legend + 44, y + 11, name, size=12))
    return svg(width, top + plot + foot, body)


def breakdown_svg(bars: Sequence[WorkloadShares], title: str) -> str:
    """One bar a workload, divided into active, movement and idle (figures 1 and 2 of the TorchBench paper)."""
    several = len({one.rung for one in bars}) > 1
    labels = [f"{one.workload} on {one.rung}" if several else one.workload for one in bars]
    left, top = room_for(labels), 70
    plot = WIDTH - left - 80
    body = [text(16, 26, title, size=17, weight="600")]
    for i, part in enumerate(PARTS):
        body += [box(left + 130 * i, 40, 13, 13, colour(part), ""), text(left + 130 * i + 20, 51, part, size=12)]
    for i, one in enumerate(bars):
        y, x = top + 24 * i, float(left)
        body.append(text(left - 10, y + 14, ending(labels[i], LONGEST_LABEL), anchor="end", size=12))
        for part in PARTS:
            share = getattr(one, part)
            body.append(box(x, y, share * plot, 18, colour(part), f"{part} {100 * share:.1f} %"))
            x += share * plot
        body.append(text(left + plot + 8, y + 14, f"{100 * one.active:.0f} %", size=12, fill=FAINT))
    return svg(WIDTH, top + 24 * len(bars) + 16, body)


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
        lines.append(line(x, top, x, bottom, GRID))
        lines.append(text(x, bottom + 16, shown, anchor="middle", size=11, fill=FAINT))
    return lines


def _ticks(most: int) -> list[int]:
    """Four to eight round numbers from zero up."""
    size = 10 ** (len(str(most)) - 1)
    step = next((s for s in (size // 10, size // 5, size // 2, size, 2 * size) if s and most / s <= 8), size)
    return list(range(0, most + 1, max(step, 1)))


def _tick(ns: int, most: int) -> str:
    scale, unit = unit_of(most / 1e9)
    return f"{ns / 1e9 / scale:.3g} {unit}"
