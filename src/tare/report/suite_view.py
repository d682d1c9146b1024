"""Suites as text: the cells are made once, for the terminal and for Markdown."""

import re

from rich.console import Group, RenderableType
from rich.text import Text

from tare.report.fitting import FittingTable
from tare.report.numbers import duration, ratio, short_size
from tare.report.suite import BASELINE, Mean, Suite
from tare.stats.intervals import Interval
from tare.system.printable import one_line

Cells = tuple[list[str], list[list[str]]]


def suite_cells(suite: Suite) -> Cells:
    """Heads and rows: time, host memory and device memory of both sides with their ratios."""
    sides = (BASELINE, suite.rung)
    heads = ["workload", *(f"gross {side}" for side in sides), "speed-up"]
    for kind in ("host", "device"):
        heads += [*(f"{kind} {side}" for side in sides), f"{kind} x"]
    rows = []
    for pair in suite.pairs:
        times = [_time(pair.baseline.gross), _time(pair.row.gross), ratio(pair.speedup, pair.row.speedup_noise)]
        host = [short_size(pair.baseline.host_bytes), short_size(pair.row.host_bytes), ratio(pair.host_ratio, 0.0)]
        device = [
            short_size(pair.baseline.device_bytes),
            short_size(pair.row.device_bytes),
            ratio(pair.device_ratio, 0.0),
        ]
        rows.append([pair.label, *times, *host, *device])
    # On a CPU there is no device memory to speak of.
    if all(row[7:] == ["-", "-", "-"] for row in rows):
        return heads[:7], [row[:7] for row in rows]
    return heads, rows


def suite_lines(suite: Suite) -> list[str]:
    """The means, each with its n of m."""
    lines = [f"speed-up over {BASELINE}: {_mean(suite.speedup, suite.planned)}"]
    if suite.host_memory:
        lines.append(f"host memory against {BASELINE}: {_mean(suite.host_memory, suite.planned)}")
    if suite.device_memory:
        lines.append(f"device memory against {BASELINE}: {_mean(suite.device_memory, suite.planned)}")
    return lines


def missed_lines(suite: Suite) -> list[str]:
    return [one_line(f"{missed.label}: {missed.cause}") for missed in suite.missed]


def suite_title(suite: Suite) -> str:
    return f"{suite.rung} against {BASELINE} · {suite.title}"


def suite_view(suite: Suite) -> RenderableType:
    heads, rows = suite_cells(suite)
    parts: list[RenderableType] = [
        Text(suite_title(suite), style="bold"),
        Text(suite.place, style="dim"),
    ]
    if rows:
        # In several lines, so that the figures decide the width.
        shown = [head if head == "speed-up" else re.sub(r"(?<=[:-])|\s", "\n", head) for head in heads]
        # Of the columns behind the speed-up the last ones go first.
        spare = [*shown[:3:-1], *shown[1:3]]
        parts.append(FittingTable(shown, rows, right=shown[1:], folds={"workload": 0}, spare=spare, paddings=(1,)))
    parts += [Text(f"  {line}", style="bold") for line in suite_lines(suite)]
    parts += [Text(f"  left out: {line}", style="red") for line in missed_lines(suite)]
    return Group(*parts)


def _mean(mean: Mean | None, planned: int) -> str:
    if mean is None:
        return f"none (0 of {planned} workloads ran on both sides)"
    spread = f"{ratio(mean.low, 0.0)} to {ratio(mean.high, 0.0)}"
    return f"{mean.value:.2f}x, geometric mean over {mean.n} of {mean.m} workloads ({spread})"


def _time(step: Interval | None) -> str:
    return duration(step._replace(sound=False)) if step else "-"
