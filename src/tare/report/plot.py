"""A series in text: one line of blocks, or a plot of a few lines. Many points share a column by their median."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median

# A smaller relative difference is rounding.
ROUNDING = 1e-9
# The share of points at either end that may lie outside of a plot.
OUTLIERS = 0.02
BLOCKS = "▁▂▃▄▅▆▇█"


def columns(
    values: Sequence[float], width: int, combine: Callable[[Sequence[float]], float] = median
) -> list[float]:
    """At most `width` values: neighbours that share a column are combined."""
    n = len(values)
    if n <= width:
        return list(values)
    edges = [i * n // width for i in range(width + 1)]
    return [combine(values[a:b]) for a, b in pairwise(edges)]


def sparkline(
    values: Sequence[float], width: int = 40, combine: Callable[[Sequence[float]], float] = median
) -> str:
    shown = columns(values, width, combine)
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    if is_flat(low, high):
        return BLOCKS[3] * len(shown)
    return "".join(BLOCKS[min(int((v - low) / (high - low) * len(BLOCKS)), len(BLOCKS) - 1)] for v in shown)


def plot(
    values: Sequence[float], fitted: Sequence[float], steps: Sequence[int], axis: Sequence[str], width: int
) -> list[str]:
    """Points as dots over the fitted line; columns with a step are marked under the axis. `axis` has the labels of
    the lines from the top, so its length is the height of the plot."""
    height, room = len(axis), max(map(len, axis), default=0)
    shown, line = columns(values, width - room - 3), columns(fitted, width - room - 3)
    low, high = shown_range(values, fitted)
    rows = [[" "] * len(shown) for _ in range(height)]
    for mark, series in (("─", line), ("•", shown)):
        for x, value in enumerate(series):
            rows[_row(value, low, high, height)][x] = mark
    lines = [f"{label:>{room}} ┤{''.join(row)}" for label, row in zip(axis, rows, strict=True)]
    places = {min(at * len(shown) // max(len(values), 1), len(shown) - 1) for at in steps}
    foot = "".join("▲" if x in places else "─" for x in range(len(shown)))
    return [*lines, f"{'':>{room}} └{foot}"]


def shown_range(values: Sequence[float], fitted: Sequence[float]) -> tuple[float, float]:
    """The range of the fitted line and nearly all points; far outliers are drawn at the edge."""
    ordered = sorted(values)
    cut = math.ceil(len(ordered) * OUTLIERS) if len(ordered) >= 20 else 0
    return min(ordered[cut], *fitted), max(ordered[len(ordered) - 1 - cut], *fitted)


def is_flat(low: float, high: float) -> bool:
    return high - low <= ROUNDING * abs(high)


def _row(value: float, low: float, high: float, height: int) -> int:
    if is_flat(low, high):
        return height // 2
    return min(max(int((high - value) / (high - low) * (height - 1) + 0.5), 0), height - 1)
