"""Exceptions in a hot path (the TorchBench paper, PR 87855). Raising and catching silently leaves no mark in one
trace (host-work-grew compares two); formatting a traceback, as logging.exception does, is seen here."""

import numpy as np

from tare.findings import Context, Location, Match, WhatIf, rule, spans_of

FEWEST = 5
_FORMATTING = r"(?:^|/)traceback\.py\(\d+\): (?:format_exc|print_exc|format_exception|print_exception|extract_tb)$"


@rule(
    "exceptions",
    sees="At least 5 tracebacks a step are formatted (needs with_stack).",
    remedy="Do not raise for what happens in every step: test first (key in table, hasattr), or catch without "
    "formatting.",
)
def look(context: Context) -> Match | None:
    frames = context.trace.frames
    rows = context.matching(frames, _FORMATTING)
    outer = rows[~np.isin(frames.parent[rows], rows)]
    count = context.per_step(len(outer))
    if count < FEWEST:
        return None
    locations: dict[str, list[int]] = {}
    for row in outer.tolist():
        where = context.locator.at(int(frames.thread[row]), int(frames.start[row])) or "Python"
        locations.setdefault(where, []).append(row)
    return Match(
        summary=f"tracebacks are formatted: {count:.3g} a step",
        evidence={"tracebacks_per_step": count},
        locations=[
            Location(where=where, count=context.per_step(len(group)), seconds=context.seconds(frames, group))
            for where, group in locations.items()
        ],
        saving_s=context.saving(WhatIf(removed=spans_of(frames, outer))),
        spans=spans_of(frames, outer),
    )
