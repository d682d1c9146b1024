"""The TorchBench paper, PR 87855: exceptions in a hot path. What raises and catches in silence leaves no mark in
one trace (host-work-grew compares two); what also formats a traceback, as logging.exception does, is seen here."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.replay import Edit

FEWEST = 5
_FORMATTING = r"(?:^|/)traceback\.py\(\d+\): (?:format_exc|print_exc|format_exception|print_exception|extract_tb)$"


@rule(
    "exceptions",
    sees="At least 5 tracebacks a step are formatted (needs with_stack).",
    remedy="Do not raise for what happens in every step: test first (key in table, hasattr), or catch without "
    "formatting.",
)
def look(scene: Scene) -> Iterator[Hit]:
    frames = scene.trace.frames
    rows = scene.matching(frames, _FORMATTING)
    outer = rows[~np.isin(frames.parent[rows], rows)]
    if scene.per_step(len(outer)) < FEWEST:
        return
    places: dict[str, list[int]] = {}
    for row in outer.tolist():
        where = scene.places.at(int(frames.thread[row]), int(frames.start[row])) or "Python"
        places.setdefault(where, []).append(row)
    yield Hit(
        summary=f"tracebacks are formatted: {scene.per_step(len(outer)):.3g} a step",
        evidence={"tracebacks_per_step": scene.per_step(len(outer))},
        places=[
            Place(
                where=where,
                count=scene.per_step(len(found)),
                seconds=float(frames.duration[found].sum()) / scene.steps / 1e9,
            )
            for where, found in places.items()
        ],
        gain_s=scene.price(Edit(removed=spans_of(frames, outer, most=len(outer)))),
        spans=spans_of(frames, outer),
    )
