"""SVG: the picture of a ladder, or of suites (one rung against eager over many workloads).

The suites are drawn as figures 3 and 4 of the TorchBench paper are.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tare.errors import BadInput
from tare.records.record import Record
from tare.report.colours import colour
from tare.report.formats import record_format
from tare.report.numbers import ratio
from tare.report.suite import BASELINE, Pair, Suite, SuiteMean, make_suites, missed_lines, suite_title
from tare.report.svg import FAINT, GRID, LINE, LONGEST_LABEL, WIDTH, box, line, room_for, svg, text
from tare.system.text import beginning, ending

ROW, BAR = 18, 12
TOP = 110
# Between two panels, and for the figure beside a bar.
GAP, FIGURE = 18, 46
# Each side of the axis reaches at least this ratio: a percent must not look like a lot.
LEAST_REACH = 2.0
LONGEST_LINE = 130
BETTER, WORSE = colour("active"), colour("python")


class _Panel(NamedTuple):
    title: str
    mean: SuiteMean | None
    value: Callable[[Pair], float | None]
    more_is_better: bool


@record_format("svg", "the picture of one ladder, or of suites of many workloads")
def records_svg(records: Sequence[Record]) -> str:
    suites = make_suites(records)
    if not suites:
        raise BadInput(f"nothing to draw: --format svg shows a rung against {BASELINE} over several workloads")
    return suites_svg(suites)


def suites_svg(suites: Sequence[Suite]) -> str:
    """One chart below the other."""
    body, top = [], 0
    for suite in suites:
        height, drawn = _suite_chart(suite)
        body += [f"<g transform='translate(0 {top})'>", *drawn, "</g>"]
        top += height
    return svg(WIDTH, top, body)


def _suite_chart(suite: Suite) -> tuple[int, list[str]]:
    """Its height and its elements. The fastest workload comes first, those skipped below with their causes."""
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
        text(16, 46, suite.environment, fill=FAINT, size=12),
    ]
    for row, pair in enumerate(pairs):
        label = ending(pair.label, LONGEST_LABEL)
        body.append(text(left - 10, TOP + ROW * row + BAR, label, anchor="end", size=12))
    width = (WIDTH - left) / max(len(panels), 1)
    for number, panel in enumerate(panels):
        body += _suite_panel(panel, pairs, left + width * number, left + width * (number + 1) - GAP, bottom)
    missed = missed_lines(suite)
    body += [text(16, bottom + 24, "skipped", weight="600", size=12)] if missed else []
    for row, words in enumerate(missed):
        body.append(text(16, bottom + 42 + 16 * row, beginning(words, LONGEST_LINE), size=11, fill=FAINT))
    return bottom + 30 + (30 + 16 * len(missed) if missed else 0), body


def _suite_panel(panel: _Panel, pairs: Sequence[Pair], left: float, right: float, bottom: float) -> list[str]:
    """Bars from 1 to either side, on an axis where twice as much and half as much are equally far."""
    assert panel.mean
    low = math.log2(min(panel.mean.low, 1 / LEAST_REACH))
    high = math.log2(max(panel.mean.high, LEAST_REACH))
    scale = (right - left - FIGURE) / (high - low)

    def position(value: float) -> float:
        return left + (math.log2(value) - low) * scale

    mean = f"{panel.mean.value:.2f}x over {panel.mean.n} of {panel.mean.m}"
    body = [text(left, 70, panel.title, size=12), text(left, 86, mean, size=12, weight="600")]
    for tick in _ticks(low, high):
        x = position(2.0**tick)
        body.append(line(x, TOP - 4, x, bottom, LINE if tick == 0 else GRID))
        body.append(text(x, TOP - 8, f"{2.0**tick:g}x", anchor="middle", size=10, fill=FAINT))
    for row, pair in enumerate(pairs):
        value = panel.value(pair)
        if value is None or value <= 0:
            continue
        better = value >= 1 if panel.more_is_better else value <= 1
        ends = sorted((position(1.0), position(value)))
        y, shown = TOP + ROW * row, ratio(value, 0.0)
        tip = f"{pair.label}: {shown}"
        body.append(box(ends[0], y + 2, max(ends[1] - ends[0], 1), BAR, BETTER if better else WORSE, tip))
        body.append(text(ends[1] + 4, y + BAR, shown, size=10, fill=FAINT))
    return body


def _ticks(low: float, high: float) -> list[int]:
    """Powers of two, as many as there is room to label."""
    step = max(math.ceil((high - low) / 4), 1)
    return [tick for tick in range(math.ceil(low), math.floor(high) + 1) if tick % step == 0]
