"""SVG: the picture of a ladder, or of suites (one rung against eager over many workloads).

The suites are drawn as figures 3 and 4 of the TorchBench paper are.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tare.errors import BadInput
from tare.records.record import Record
from tare.report.formats import record_format
from tare.report.ladder import Ladder, Row, make_ladders
from tare.report.numbers import duration, ratio, seconds
from tare.report.suite import Pair, Suite, SuiteMean, make_suites, missed_lines, suite_title
from tare.report.svg import FAINT, GRID, INK, LINE, LONGEST_LABEL, WIDTH, box, colour, line, room_for, svg, text
from tare.report.terminal import PARITY, title, where
from tare.system.text import beginning, ending

# A ladder: its rows, where its bars end at the latest, and the right edge of each column of text.
LADDER_TOP, RUNG_ROW, BARS_END = 82, 30, 590
COLUMNS = {"gross": 700, "x eager": 764, "parity, rounds": 884}
MOST_NOTE_LINES, LONGEST_HEADING = 8, 80
# How far the axis may reach beyond the longest bar.
MOST_BEYOND = 1.5
# Net and tare have the colours that the same parts have in `tare explain`.
GROSS, NET, TARE = "#7d8ba1", colour("kernels"), colour("launch gaps")

# A suite: its rows and bars.
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
    if suites:
        return suites_svg(suites)
    ladders = [ladder for ladder in make_ladders(records) if any(row.gross for row in ladder.rows)]
    if not ladders:
        raise BadInput("nothing to draw: no record has a time")
    return _stacked(map(_ladder_chart, ladders))


def _stacked(charts: Iterable[tuple[int, list[str]]]) -> str:
    """Charts, each with its height, one below the other."""
    body, top = [], 0
    for height, drawn in charts:
        body += [f"<g transform='translate(0 {top})'>", *drawn, "</g>"]
        top += height
    return svg(WIDTH, top, body)


def _ladder_chart(ladder: Ladder) -> tuple[int, list[str]]:
    """A bar per rung, split into net and tare where net is known, with the interval of gross and the ratio to
    eager. Rungs that failed are listed below."""
    measured = [row for row in ladder.rows if row.gross]
    left = room_for([row.rung for row in measured])
    steps = [row.gross for row in measured if row.gross]
    # Two rounds that disagree can have an interval of any size: it is cut off rather than the bars squeezed.
    widest = MOST_BEYOND * max(step.mid for step in steps)
    longest = min(max(step.high if step.sound else step.mid for step in steps), widest)
    scale = (BARS_END - left) / longest if longest else 0.0
    bottom = LADDER_TOP + RUNG_ROW * len(measured)
    heading = title(ladder.case)
    body = [
        text(16, 26, heading, size=17 if len(heading) <= LONGEST_HEADING else 13, weight="600"),
        text(16, 46, where(ladder), fill=FAINT, size=12),
        *(text(end, LADDER_TOP - 8, head, anchor="end", size=11, fill=FAINT) for head, end in COLUMNS.items()),
        line(left, LADDER_TOP, left, bottom, LINE),
    ]
    for number, row in enumerate(measured):
        body += _rung_bar(row, left, LADDER_TOP + RUNG_ROW * number, scale)
    body += _legend({row.net_s is not None for row in measured}, left, bottom + 20)
    notes = [*(row.trouble for row in ladder.rows if row.trouble), ladder.optimised, *ladder.notes]
    lines: list[str] = []
    for note in filter(None, notes):
        folded = textwrap.wrap(note, LONGEST_LINE, break_on_hyphens=False)
        # A note is shown whole or not at all.
        if len(lines) + len(folded) <= MOST_NOTE_LINES:
            lines += folded
    for number, words in enumerate(lines):
        body.append(text(16, bottom + 46 + 16 * number, words, size=11, fill=FAINT))
    return bottom + 36 + 16 * len(lines) + (10 if lines else 0), body


def _rung_bar(row: Row, left: float, top: float, scale: float) -> list[str]:
    assert row.gross is not None
    middle, height = top + RUNG_ROW / 2, RUNG_ROW - 10
    width = row.gross.mid * scale
    body = [text(left - 10, middle + 4, row.rung, anchor="end", size=12)]
    net_s, tare_s = row.net_s, row.tare_s
    if net_s is None or tare_s is None:
        body.append(box(left, top + 5, width, height, GROSS, f"{row.rung}: gross {duration(row.gross)}"))
    else:
        body.append(box(left, top + 5, net_s * scale, height, NET, f"{row.rung}: net {seconds(net_s)}"))
        tip = f"{row.rung}: tare {seconds(tare_s)}, {row.tare_share or 0:.0%} of gross"
        body.append(box(left + net_s * scale, top + 5, width - net_s * scale, height, TARE, tip))
    if row.gross.sound:
        low, high = left + max(row.gross.low, 0.0) * scale, left + row.gross.high * scale
        body.append(line(low, middle, min(high, BARS_END), middle, INK))
        body += [line(x, middle - 4, x, middle + 4, INK) for x in (low, high) if left < x <= BARS_END + 1]
    parity = f"{PARITY[row.parity]}, {row.rounds}"
    cells = (duration(row.gross), ratio(row.speedup_over_eager, row.speedup_noise), parity)
    for cell, (head, end) in zip(cells, COLUMNS.items(), strict=True):
        weight = "600" if head == "x eager" else "400"
        body.append(text(end, middle + 4, cell, anchor="end", size=12, weight=weight))
    return body


def _legend(is_split: set[bool], left: float, top: float) -> list[str]:
    """What the colours mean, and what the line across a bar is. `is_split` tells which kinds of bars there are."""
    entries = [(NET, "net: the device computes"), (TARE, "tare: the stack around it")] if True in is_split else []
    entries += [(GROSS, "gross: net is not known")] if False in is_split else []
    body = []
    for fill, words in entries:
        body += [box(left, top - 9, 10, 10, fill, ""), text(left + 15, top, words, size=11, fill=FAINT)]
        left += 35 + 6 * len(words)
    body.append(line(left, top - 4, left + 14, top - 4, INK))
    return [*body, text(left + 19, top, "95 % interval", size=11, fill=FAINT)]


def suites_svg(suites: Sequence[Suite]) -> str:
    return _stacked(map(_suite_chart, suites))


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
