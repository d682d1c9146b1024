"""Exceptions in a hot path (the TorchBench paper, PR 87855). Raising and catching silently leaves no mark in one
trace (host-work-grew compares two); formatting a traceback, as logging.exception does, is seen here."""

import numpy as np

from tare.findings import Context, Match, WhatIf, rule

FEWEST = 5
_FORMATTING = r"(?:^|/)traceback\.py\(\d+\): (?:format_exc|print_exc|format_exception|print_exception|extract_tb)$"


@rule(
    "Do not raise for what happens in every step: test first (key in table, hasattr), or catch without formatting."
)
def exceptions(context: Context) -> Match | None:
    """At least 5 tracebacks a step are formatted (needs with_stack)."""
    frames = context.trace.frames
    rows = context.matching(frames, _FORMATTING)
    outer = rows[~np.isin(frames.parent[rows], rows)]
    count, spans = context.per_step(len(outer)), frames.intervals(outer)
    if count < FEWEST:
        return None
    return Match(
        summary=f"tracebacks are formatted: {count:.3g} a step",
        evidence={"tracebacks_per_step": count},
        locations=context.locations(frames, outer),
        saving_s=context.saving(WhatIf(removed=spans)),
        spans=spans,
    )
