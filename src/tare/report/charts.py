"""Charts of explanations: the waterfall of a step, a ladder of waterfalls, the breakdowns of a group; and their
files."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tare.report.explain import ExplainReport, percent, rung_label
from tare.report.files import several_files, write_whole
from tare.report.numbers import seconds, unit_of
from tare.report.svg import FAINT, GRID, INK, LINE, LONGEST_LABEL, WIDTH, box, colour, line, room_for, svg, text
from tare.system.text import ending
from tare.trace.explanation import Explanation
from tare.trace.group import PARTS, WorkloadShares
from tare.trace.waterfall import MEANING, ORDER, Waterfall

# Without a device, operators do what kernels do on one.
ON_HOST = {
    "kernels": "operators compute (no roofline: nothing was counted, or no peaks are known)",
    "kernel inefficiency": "operators that take longer than their operations and bytes would",
    "unfused traffic": "results written to memory and read again because operators are not fused",
}
ROW = 30


class Picture(NamedTuple):
    """`name_parts` tell it from the others in the name of its file, the most specific first."""

    name_parts: list[str]
    svg: str


def write_svg(report: ExplainReport, path: Path) -> list[Path]:
    """Writes a ladder for several rungs of a workload and a waterfall for each other case; where these are
    several, also the breakdowns of the group. Returns the written files: none where nothing was explained."""
    in_ladders = {id(one) for rungs in report.ladders for one in rungs}
    pictures = _ladder_pictures(report)
    pictures += [
        Picture(case_parts(one), waterfall_svg(one.waterfall, on_host=one.breakdown is None))
        for one in report.explanations
        if id(one) not in in_ladders
    ]
    if len(pictures) > 1:
        pictures += _breakdown_pictures(report)
    paths = several_files(path, [picture.name_parts for picture in pictures]) if pictures else []
    for target, picture in zip(paths, pictures, strict=True):
        write_whole(target, picture.svg)
    return paths


def overviews(report: ExplainReport) -> list[str]:
    """The charts that show several cases: ladders and groups."""
    return [picture.svg for picture in (*_ladder_pictures(report), *_breakdown_pictures(report))]


def case_parts(one: Explanation, rung: bool = True) -> list[str]:
    """What tells a case from others in the name of a file; a foreign trace has only its title."""
    if not one.case:
        return [one.title]
    workload, rung_name, *rest = one.case.split("/")
    return [workload, *rest, *([rung_name] if rung else [])]


def _ladder_pictures(report: ExplainReport) -> list[Picture]:
    pictures = []
    for rungs in report.ladders:
        title = rungs[0].title.rpartition(" on ")[0] or "one step"
        on_host = all(one.breakdown is None for one in rungs)
        chart = ladder_svg([one.waterfall for one in rungs], [rung_label(one) for one in rungs], title, on_host)
        pictures.append(Picture(case_parts(rungs[0], rung=False) if rungs[0].case else ["ladder"], chart))
    return pictures


def _breakdown_pictures(report: ExplainReport) -> list[Picture]:
    """One for each mode: inference and training have no common means."""
    bars = report.breakdowns.bars if report.breakdowns else []
    pictures = []
    for mode in dict.fromkeys(bar.mode for bar in bars):
        title = f"active, movement, idle{f': {mode}' if mode else ''}"
        chart = breakdown_svg([bar for bar in bars if bar.mode == mode], title)
        pictures.append(Picture(["breakdown", mode], chart))
    return pictures


def waterfall_svg(waterfall: Waterfall, on_host: bool = False) -> str:
    """One bar a segment, each starting where the previous one ended; gross at the bottom. `on_host`: there is no
    device, and operators compute."""
    left, right, top = 170, 150, 64
    scale = (WIDTH - left - right) / waterfall.gross
    height = top + ROW * (len(waterfall.segments) + 1) + 34
    body = [
        text(16, 26, waterfall.title, size=17, weight="600"),
        text(16, 46, _subtitle(waterfall, on_host), fill=FAINT, size=12),
    ]
    body += _grid(waterfall, scale, left, top, height - 30)
    start = 0
    for i, segment in enumerate(waterfall.segments):
        x, y = left + start * scale, top + ROW * i
        width = max(segment.ns * scale, 1)
        body.append(text(left - 10, y + 19, segment.name, anchor="end"))
        body.append(box(x, y + 4, width, ROW - 8, colour(segment.name), _meaning(segment.name, on_host)))
        body.append(text(x + width + 6, y + 19, _amount(segment.ns, waterfall), size=12))
        start += segment.ns
        if i + 1 < len(waterfall.segments):
            x = left + start * scale
            body.append(line(x, y + 4, x, y + ROW + 4, LINE))
    y, width = top + ROW * len(waterfall.segments), waterfall.gross * scale
    name = "profiled step" if waterfall.profiled else "gross"
    body.append(text(left - 10, y + 19, name, anchor="end", weight="600"))
    body.append(box(left, y + 4, width, ROW - 8, INK, "measured without a profiler"))
    body.append(text(left + width + 6, y + 19, _amount(waterfall.gross, waterfall), size=12, weight="600"))
    return svg(WIDTH, height, body)


def ladder_svg(falls: Sequence[Waterfall], names: Sequence[str], title: str, on_host: bool = False) -> str:
    """One column a rung, on one scale of time, with a legend of the segments that occur."""
    present = [name for name in ORDER if any(fall.find(name) for fall in falls)]
    left, top, plot, foot, legend = 70, 60, 360, 60, 220
    step = max(90, min(150, (WIDTH - left - legend) / max(len(falls), 1)))
    width = left + step * len(falls) + legend
    longest = max(fall.gross for fall in falls)
    scale = plot / longest
    body = [text(16, 28, title, size=17, weight="600")]
    for tick in _ticks(longest):
        y = top + plot - tick * scale
        body.append(line(left, y, left + step * len(falls), y, GRID))
        body.append(text(left - 8, y + 4, _tick(tick, longest), anchor="end", size=11, fill=FAINT))
    for i, (fall, name) in enumerate(zip(falls, names, strict=True)):
        x, y = left + step * i + step * 0.15, float(top + plot)
        middle = x + step * 0.35
        for segment in fall.segments:
            y -= segment.ns * scale
            tip = f"{segment.name}: {_amount(segment.ns, fall)}"
            body.append(box(x, y, step * 0.7, segment.ns * scale, colour(segment.name), tip))
        body.append(text(middle, y - 6, seconds(fall.gross / 1e9), anchor="middle", size=12, weight="600"))
        for row, part in enumerate(_wrapped(name, int(step / 7))):
            body.append(text(middle, top + plot + 20 + 15 * row, part, anchor="middle", size=12))
    for i, name in enumerate(reversed(present)):
        y = top + 22 * i
        body.append(box(width - legend + 24, y, 13, 13, colour(name), _meaning(name, on_host)))
        body.append(text(width - legend + 44, y + 11, name, size=12))
    return svg(width, top + plot + foot, body)


def breakdown_svg(bars: Sequence[WorkloadShares], title: str) -> str:
    """One bar a workload, divided into active, movement and idle (figures 1 and 2 of the TorchBench paper)."""
    several_rungs = len({bar.rung for bar in bars}) > 1
    labels = [f"{bar.workload} on {bar.rung}" if several_rungs else bar.workload for bar in bars]
    left, top = room_for(labels), 70
    plot = WIDTH - left - 80
    body = [text(16, 26, title, size=17, weight="600")]
    for i, part in enumerate(PARTS):
        body += [box(left + 130 * i, 40, 13, 13, colour(part), ""), text(left + 130 * i + 20, 51, part, size=12)]
    for i, bar in enumerate(bars):
        x, y = float(left), top + 24 * i
        body.append(text(left - 10, y + 14, ending(labels[i], LONGEST_LABEL), anchor="end", size=12))
        for part in PARTS:
            share = getattr(bar, part)
            body.append(box(x, y, share * plot, 18, colour(part), f"{part} {100 * share:.1f} %"))
            x += share * plot
        body.append(text(left + plot + 8, y + 14, f"{100 * bar.active:.0f} %", size=12, fill=FAINT))
    return svg(WIDTH, top + 24 * len(bars) + 16, body)


def _wrapped(name: str, longest: int) -> list[str]:
    """A name in lines, broken after its colons and hyphens where it is too long for its column."""
    lines = [""]
    for part in re.split(r"(?<=[:\-_ ])", name):
        if lines[-1] and len(lines[-1]) + len(part) > longest:
            lines.append("")
        lines[-1] += part
    return lines


def _meaning(name: str, on_host: bool) -> str:
    return ON_HOST.get(name, MEANING[name]) if on_host else MEANING[name]


def _subtitle(waterfall: Waterfall, on_host: bool) -> str:
    if waterfall.profiled:
        return "shares of a profiled step: how long it takes without a profiler is not known"
    who = "operators compute" if on_host else "the device computes"
    return f"one step takes {seconds(waterfall.gross / 1e9)}; {who} for {seconds(waterfall.net / 1e9)} of it"


def _amount(ns: int, waterfall: Waterfall) -> str:
    share = percent(ns / waterfall.gross) if waterfall.gross else ""
    return share if waterfall.profiled else f"{seconds(ns / 1e9)} · {share}"


def _grid(waterfall: Waterfall, scale: float, left: float, top: float, bottom: float) -> list[str]:
    gross = waterfall.gross
    lines = []
    for tick in [gross * i // 4 for i in range(5)] if waterfall.profiled else _ticks(gross):
        x = left + tick * scale
        label = f"{100 * tick / gross:.0f} %" if waterfall.profiled else _tick(tick, gross)
        lines.append(line(x, top, x, bottom, GRID))
        lines.append(text(x, bottom + 16, label, anchor="middle", size=11, fill=FAINT))
    return lines


def _ticks(most: int) -> list[int]:
    """Four to eight round numbers from zero up."""
    size = 10 ** (len(str(most)) - 1)
    step = next((s for s in (size // 10, size // 5, size // 2, size, 2 * size) if s and most / s <= 8), size)
    return list(range(0, most + 1, max(step, 1)))


def _tick(ns: int, most: int) -> str:
    scale, unit = unit_of(most / 1e9)
    return f"{ns / 1e9 / scale:.3g} {unit}"
