"""Suites as a picture: how many times as fast, and as much memory, a line a workload (as the TorchBench paper's
figures 3 and 4)."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tare.report.colours import colour
from tare.report.numbers import ratio
from tare.report.suite import Mean, Pair, Suite
from tare.report.suite_view import missed_lines, suite_title
from tare.report.svg import FAINT, GRID, LINE, LONGEST_LABEL, WIDTH, box, line, room_for, svg, text
from tare.system.printable import beginning, ending

ROW, BAR = 18, 12
TOP = 110
# Between two panels, and for the number beside a bar.
GAP, FIGURE = 18, 46
# Each side of the axis reaches at least so many times as much: a percent is not to look like a lot.
LEAST_REACH = 2.0
LONGEST_LINE = 130
BETTER, WORSE = colour("active"), colour("python")


class _Panel(NamedTuple):
    title: str
    mean: Mean | None
    value: Callable[[Pair], float | None]
    more_is_better: bool


def suites_svg(suites: Sequence[Suite]) -> str:
    """One below the other."""
    body, at = [], 0
    for suite in suites:
        height, drawn = _chart(suite)
        body += [f"<g transform='translate(0 {at})'>", *drawn, "</g>"]
        at += height
    return svg(WIDTH, at, body)


def _chart(suite: Suite) -> tuple[int, list[str]]:
    """How high it is, and what it is made of: the fastest first; what was left out stands below with its cause."""
    pairs = sorted(suite.pairs, key=lambda pair: -pair.speedup)
    panels = [
        panel
        for panel in (
            _Panel("speed-up", suite.speedup, lambda pair: pair.speedup, True),
            _Panel("host memory", suite.host_memory, lambda pair: pair.host_ratio, False),
            _Panel("device memory", suite.device_memory, lambda pair: pair.device_ratio, False),
        )
        if panel.mean
    ]
    left, bottom = room_for([pair.label for pair in pairs]), TOP + ROW * len(pairs)
    body = [
        text(16, 26, suite_title(suite), size=17, weight="600"),
        text(16, 46, suite.place, fill=FAINT, size=12),
    ]
    for row, pair in enumerate(pairs):
        label = ending(pair.label, LONGEST_LABEL)
        body.append(text(left - 10, TOP + ROW * row + BAR, label, anchor="end", size=12))
    wide = (WIDTH - left) / max(len(panels), 1)
    for number, panel in enumerate(panels):
        body += _drawn(panel, pairs, left + wide * number, left + wide * (number + 1) - GAP, bottom)
    missed = missed_lines(suite)
    body += [text(16, bottom + 24, "left out", weight="600", size=12)] if missed else []
    for row, words in enumerate(missed):
        body.append(text(16, bottom + 42 + 16 * row, beginning(words, LONGEST_LINE), size=11, fill=FAINT))
    return bottom + 30 + (30 + 16 * len(missed) if missed else 0), body


def _drawn(panel: _Panel, pairs: Sequence[Pair], left: float, right: float, bottom: float) -> list[str]:
    """Bars from 1 to either side, on an axis where twice as much and half as much are equally far."""
    assert panel.mean
    low = math.log2(min(panel.mean.low, 1 / LEAST_REACH))
    high = math.log2(max(panel.mean.high, LEAST_REACH))
    scale = (right - left - FIGURE) / (high - low)

    def place(value: float) -> float:
        return left + (math.log2(value) - low) * scale

    mean = f"{panel.mean.value:.2f}x over {panel.mean.n} of {panel.mean.m}"
    body = [text(left, 70, panel.title, size=12), text(left, 86, mean, size=12, weight="600")]
    for tick in _ticks(low, high):
        x = place(2.0**tick)
        body.append(line(x, TOP - 4, x, bottom, LINE if tick == 0 else GRID))
        body.append(text(x, TOP - 8, f"{2.0**tick:g}x", anchor="middle", size=10, fill=FAINT))
    for row, pair in enumerate(pairs):
        value = panel.value(pair)
        if value is None or value <= 0:
            continue
        better = value >= 1 if panel.more_is_better else value <= 1
        ends = sorted((place(1.0), place(value)))
        y, shown = TOP + ROW * row, ratio(value, 0.0)
        tip = f"{pair.label}: {shown}"
        body.append(box(ends[0], y + 2, max(ends[1] - ends[0], 1), BAR, BETTER if better else WORSE, tip))
        body.append(text(ends[1] + 4, y + BAR, shown, size=10, fill=FAINT))
    return body


def _ticks(low: float, high: float) -> list[int]:
    """Powers of two, so many that their names have room."""
    step = max(math.ceil((high - low) / 4), 1)
    return [tick for tick in range(math.ceil(low), math.floor(high) + 1) if tick % step == 0]
