"""The iterations of a server on a line of time: a character of the terminal for each moment, or an SVG picture
with a row for each kind."""

import numpy as np

from tare.report.numbers import seconds, unit_of
from tare.report.svg import COLOURS, Bar, bar_chart, stacked
from tare.trace.intervals import Integers, covered_length, make
from tare.trace.serving import IterationTime, Serving

LETTERS = {"prefill": "P", "decode": "d", "mixed": "m", "unknown": "?"}
BETWEEN = "·"
_COLOURS = {
    "prefill": COLOURS["dispatch"],
    "decode": COLOURS["kernels"],
    "mixed": COLOURS["launch gaps"],
    "unknown": COLOURS["tail"],
}
# A picture of more iterations shows the first.
MOST_DRAWN = 1000


def timeline_text(server: Serving, width: int) -> str:
    """What each moment is mostly: the letter of a kind, or a point between iterations."""
    extent = max(one.at + one.ns for one in server.iterations)
    edges = np.linspace(0, extent, width + 1).astype(np.int64)
    kinds = [kind for kind in LETTERS if any(one.kind == kind for one in server.iterations)]
    covered = np.stack([_covered(server, kind, edges) for kind in kinds])
    longest, covering = covered.argmax(axis=0), covered.sum(axis=0)
    # An iteration that is shorter than a moment is seen if the moment is half full.
    is_in_one = 2 * covering >= np.maximum(np.diff(edges), 1)
    return "".join(LETTERS[kinds[k]] if inside else BETWEEN for k, inside in zip(longest, is_in_one, strict=True))


def _covered(server: Serving, kind: str, edges: Integers) -> Integers:
    spans = [(one.at, one.at + one.ns) for one in server.iterations if one.kind == kind]
    starts, ends = zip(*spans, strict=True)
    return covered_length(make(starts, ends), edges[:-1], edges[1:])


def timeline_svg(server: Serving) -> str:
    drawn = server.iterations[:MOST_DRAWN]
    extent = drawn[-1].at + drawn[-1].ns
    bars = [Bar(kind, _boxes(drawn, kind)) for kind in LETTERS if any(one.kind == kind for one in drawn)]
    shown = (
        f"the first {len(drawn)} iterations" if len(drawn) < len(server.iterations) else f"{len(drawn)} iterations"
    )
    scale, unit = unit_of(extent / 1e9)
    ticks = {extent * i / 4: f"{extent * i / 4 / 1e9 / scale:.3g} {unit}" for i in range(5)}
    return stacked(
        [bar_chart("iterations", f"{shown}, by the time of the profiled run", bars, extent, ticks=ticks)]
    )


def _boxes(iterations: list[IterationTime], kind: str) -> list[tuple[float, str, str]]:
    """The segments of a row, with nothing between them."""
    boxes: list[tuple[float, str, str]] = []
    reached = 0
    for one in iterations:
        if one.kind == kind:
            batch = "" if one.sequences is None else f", {one.sequences} sequences"
            batch += "" if one.tokens is None else f", {one.tokens} tokens"
            boxes.append((one.at - reached, "none", ""))
            boxes.append((one.ns, _COLOURS[kind], f"{kind}: {seconds(one.ns / 1e9)}{batch}"))
            reached = one.at + one.ns
    return boxes
