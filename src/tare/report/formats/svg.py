"""SVG: the picture of a ladder, or of suites (one rung against eager over many workloads).

The suites are drawn as figures 3 and 4 of the TorchBench paper are.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tare.errors import BadInput
from tare.records.record import Record
from tare.report import svg
from tare.report.formats import record_format
from tare.report.ladder import PARITY, Ladder, Row, make_ladders, title, where
from tare.report.numbers import duration, ratio, seconds
from tare.report.suite import Pair, Suite, SuiteMean, make_suites
from tare.report.svg import Bar, Chart, bar_chart, colour, stacked
from tare.system.text import beginning, ending

# A ladder: the right edge of each column of text.
COLUMNS = {"gross": 700, "x eager": 764, "parity, rounds": 884}
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
BETTER, WORSE = colour("active"), colour("python")


@record_format("svg", "the picture of one ladder, or of suites of many workloads")
def records_svg(records: Sequence[Record]) -> str:
    suites = make_suites(records)
    if suites:
        return suites_svg(suites)
    ladders = [ladder for ladder in make_ladders(records) if any(row.gross for row in ladder.rows)]
    if not ladders:
        raise BadInput("nothing to draw: no record has a time")
    return stacked(map(_ladder_chart, ladders))


def _ladder_chart(ladder: Ladder) -> Chart:
    """A bar per rung, split into net and tare where net is known, with the interval of gross and the ratio to
    eager. Rungs that failed are listed below."""
    steps = [row.gross for row in ladder.rows if row.gross]
    # Two rounds that disagree can have an interval of any size: it is cut off rather than the bars squeezed.
    widest = MOST_BEYOND * max(step.mid for step in steps)
    longest = min(max(step.high if step.sound else step.mid for step in steps), widest)
    is_split = {row.net_s is not None for row in ladder.rows if row.gross}
    legend = {}
    if True in is_split:
        legend = {"net: the device computes": (NET, ""), "tare: the stack around it": (TARE, "")}
    if False in is_split:
        legend["gross: net is not known"] = (GROSS, "")
    notes = [*(row.trouble for row in ladder.rows), ladder.optimised, *ladder.notes]
    return bar_chart(
        title(ladder.case),
        where(ladder),
        [_rung_bar(row) for row in ladder.rows if row.gross],
        longest,
        columns=COLUMNS,
        legend=legend | {"line: 95 % interval": (svg.INK, "")},
        notes=filter(None, notes),
    )


def _rung_bar(row: Row) -> Bar:
    assert row.gross is not None
    segments = [(row.gross.mid, GROSS, f"{row.rung}: gross {duration(row.gross)}")]
    if row.net_s is not None and row.tare_s is not None:
        tip = f"{row.rung}: tare {seconds(row.tare_s)}, {row.tare_share or 0:.0%} of gross"
        segments = [(row.net_s, NET, f"{row.rung}: net {seconds(row.net_s)}"), (row.tare_s, TARE, tip)]
    speedup, parity = ratio(row.speedup_over_eager, row.speedup_noise), f"{PARITY[row.parity]}, {row.rounds}"
    interval = (row.gross.low, row.gross.high) if row.gross.sound else None
    return Bar(row.rung, segments, cells=(duration(row.gross), speedup, parity), interval=interval)


def suites_svg(suites: Sequence[Suite]) -> str:
    return stacked(map(_suite_chart, suites))


class _Panel(NamedTuple):
    title: str
    mean: SuiteMean
    field: str
    more_is_better: bool


def _suite_chart(suite: Suite) -> Chart:
    """The fastest workload comes first, those skipped below with their causes."""
    pairs = sorted(suite.pairs, key=lambda pair: -pair.speedup)
    panels = [_Panel("speed-up", suite.speedup, "speedup", True)] if suite.speedup else []
    panels += [_Panel("host memory", suite.host_memory, "host_ratio", False)] if suite.host_memory else []
    panels += [_Panel("device memory", suite.device_memory, "device_ratio", False)] if suite.device_memory else []
    left, bottom = svg.room_for(pair.label for pair in pairs), TOP + ROW * len(pairs)
    body = svg.heading(suite.heading, suite.environment)
    for row, pair in enumerate(pairs):
        label = ending(pair.label, svg.LONGEST_LABEL)
        body.append(svg.text(left - 10, TOP + ROW * row + BAR, label, anchor="end", size=12))
    width = (svg.WIDTH - left) / max(len(panels), 1)
    for number, panel in enumerate(panels):
        body += _suite_panel(panel, pairs, left + width * number, left + width * (number + 1) - GAP, bottom)
    missed = suite.missed_lines
    body += [svg.text(16, bottom + 24, "skipped", weight="600", size=12)] if missed else []
    for row, words in enumerate(missed):
        body.append(
            svg.text(16, bottom + 42 + 16 * row, beginning(words, svg.LONGEST_LINE), size=11, fill=svg.FAINT)
        )
    return Chart(bottom + 30 + (30 + 16 * len(missed) if missed else 0), body)


def _suite_panel(panel: _Panel, pairs: Sequence[Pair], left: float, right: float, bottom: float) -> list[str]:
    """Bars from 1 to either side, on an axis where twice as much and half as much are equally far."""
    low = math.log2(min(panel.mean.low, 1 / LEAST_REACH))
    high = math.log2(max(panel.mean.high, LEAST_REACH))
    scale = (right - left - FIGURE) / (high - low)

    def position(value: float) -> float:
        return left + (math.log2(value) - low) * scale

    mean = f"{panel.mean.value:.2f}x over {panel.mean.n} of {panel.mean.m}"
    body = [svg.text(left, 70, panel.title, size=12), svg.text(left, 86, mean, size=12, weight="600")]
    # Powers of two, as many as there is room to label.
    step = max(math.ceil((high - low) / 4), 1)
    for tick in range(math.ceil(low / step) * step, math.floor(high) + 1, step):
        x = position(2.0**tick)
        body.append(svg.line(x, TOP - 4, x, bottom, svg.LINE if tick == 0 else svg.GRID))
        body.append(svg.text(x, TOP - 8, f"{2.0**tick:g}x", anchor="middle", size=10, fill=svg.FAINT))
    for row, pair in enumerate(pairs):
        value = getattr(pair, panel.field)
        if value is None or value <= 0:
            continue
        better = value >= 1 if panel.more_is_better else value <= 1
        ends = sorted((position(1.0), position(value)))
        y, shown = TOP + ROW * row, ratio(value, 0.0)
        tip = f"{pair.label}: {shown}"
        body.append(svg.box(ends[0], y + 2, max(ends[1] - ends[0], 1), BAR, BETTER if better else WORSE, tip))
        body.append(svg.text(ends[1] + 4, y + BAR, shown, size=10, fill=svg.FAINT))
    return body
