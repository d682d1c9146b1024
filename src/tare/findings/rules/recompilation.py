"""Dynamo compiles within a step that should be warm."""

from typing import Any

import numpy as np

from tare.findings import Context, Location, Match, as_spans, rule

_COMPILING = r"\(dynamo_timed\)$"
_COMPILATION = r"compile_inner \(dynamo_timed\)$"


@rule(
    "recompilation",
    sees="torch.compile compiles during a recorded step.",
    remedy="Keep shapes and Python values steady, mark what varies (dynamic=True, mark_dynamic); "
    "TORCH_LOGS=recompiles says why.",
)
def look(context: Context) -> Match | None:
    spans = as_spans(context.marked(_COMPILING))
    if not spans:
        return None
    trace = context.trace
    marks: Any = trace.annotations if len(context.matching(trace.annotations, _COMPILATION)) else trace.operators
    compilations = context.matching(marks, _COMPILATION)
    during = [context.inside(trace.calls) & (trace.calls.start >= s) & (trace.calls.end <= e) for s, e in spans]
    calls = np.flatnonzero(np.logical_or.reduce(during))
    return Match(
        summary=f"torch.compile compiles {context.times(max(len(compilations), 1))}",
        evidence={
            "compilations_per_step": context.per_step(len(compilations)),
            "compiling_s_per_step": sum(end - start for start, end in spans) / context.steps / 1e9,
        },
        locations=[
            Location(
                where=context.locator.at(int(marks.thread[row]), int(marks.start[row])) or trace.name(marks, row),
                count=1 / context.steps,
                seconds=context.seconds(marks, row),
            )
            for row in compilations.tolist()
        ],
        saving_s=context.saving(context.without(calls, spans)),
        spans=spans,
    )
