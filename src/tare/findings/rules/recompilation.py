"""Dynamo compiles within a step that should be warm."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tare.findings.context import Scene
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule

_COMPILING = r"\(dynamo_timed\)$"
_WHOLE = r"compile_inner \(dynamo_timed\)$"


@rule(
    "recompilation",
    sees="torch.compile compiles during a recorded step.",
    remedy="Keep shapes and Python values steady, mark what varies (dynamic=True, mark_dynamic); "
    "TORCH_LOGS=recompiles says why.",
)
def look(scene: Scene) -> Iterator[Hit]:
    spans = [(int(start), int(end)) for start, end in scene.marked(_COMPILING)]
    if not spans:
        return
    trace = scene.trace
    marks: Any = trace.annotations if len(scene.matching(trace.annotations, _WHOLE)) else trace.operators
    whole = scene.matching(marks, _WHOLE)
    started = [scene.inside(trace.calls) & (trace.calls.start >= s) & (trace.calls.end <= e) for s, e in spans]
    calls = np.flatnonzero(np.logical_or.reduce(started))
    yield Hit(
        summary=f"torch.compile compiles {scene.times(max(len(whole), 1))}",
        evidence={
            "compilations_per_step": scene.per_step(len(whole)),
            "compiling_s_per_step": sum(end - start for start, end in spans) / scene.steps / 1e9,
        },
        places=[
            Place(
                where=scene.places.at(int(marks.thread[row]), int(marks.start[row]))
                or scene.trace.name(marks, row),
                count=1 / scene.steps,
                seconds=float(marks.duration[row]) / scene.steps / 1e9,
            )
            for row in whole.tolist()
        ],
        gain_s=scene.price(scene.drop(calls, spans)),
        spans=spans[:200],
    )
