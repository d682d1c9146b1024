"""What happens once, at the beginning: compiling, allocating, loading modules. It is no habit of every step."""

import re

import numpy as np

from tare.findings import Context, Match, rule
from tare.trace.intervals import Intervals, total, union
from tare.trace.tables import ALLOCATE, Mask, Spans

COMPILING = r"dynamo_timed|^TorchDynamo|^CompiledFxGraph compile|inductor_compile|triton_compile"
LOADING = r"ModuleLoad|ModuleGetFunction|LibraryLoad|LibraryGetKernel|FuncGetAttributes|FuncSetAttribute"
CAPTURING = r"GraphInstantiate|GraphCreate|StreamEndCapture"
# Less of the median step than this is not worth a line.
LEAST_STEPS = 1.0


@rule("Judge what follows: record after a warm-up, and mark the steps (torch.profiler.schedule).")
def once_only_costs(context: Context) -> Match | None:
    """Warm-up before the steady steps of a trace that marks none, or costs of which one stretch shows no
    habit."""
    trace = context.trace
    if not context.unmarked:
        return None
    spans = _costs(context)
    named = {name: total(part) for name, part in spans.items() if total(part)}
    counted = np.flatnonzero(trace.steps.counted)
    if len(trace.steps) == 1:
        if not named:
            return None
        summary = f"one stretch does not tell whether every step has them: {', '.join(named)}"
        evidence: dict[str, float] = {}
    else:
        steady = float(np.median(trace.steps.duration[counted]))
        before = int(trace.steps.start[counted[0]]) - _beginning(context)
        if before < LEAST_STEPS * steady:
            return None
        text = f" ({', '.join(named)})" if named else ""
        summary = (
            f"before the steady steps the program warms up for as long as {before / steady:.3g} of them{text}"
        )
        evidence = {"steps_of_warm_up": before / steady}
    return Match(
        summary=summary,
        evidence=evidence | {f"{name}_s": ns / 1e9 for name, ns in named.items()},
        severity="low",
        spans=np.concatenate([part for part in spans.values() if len(part)]) if named else (),
    )


def _beginning(context: Context) -> int:
    trace = context.trace
    tables = [table for table in (trace.operators, trace.calls, trace.device) if len(table)]
    return min(int(table.start[0]) for table in tables)


def _costs(context: Context) -> dict[str, Intervals]:
    """Of each kind, the time before the steady steps; anywhere in the trace where there are none."""
    trace, calls = context.trace, context.trace.calls
    counted = np.flatnonzero(trace.steps.counted)
    until = int(trace.steps.start[counted[0]] if len(trace.steps) > 1 else trace.steps.end[-1])

    def before(table: Spans, mask: Mask) -> Intervals:
        return table.intervals(mask & (table.start < until))

    def named(table: Spans, pattern: str) -> Intervals:
        return before(table, trace.matching(table, re.compile(pattern).search))

    return {
        "compiling": union(named(trace.annotations, COMPILING), named(trace.operators, COMPILING)),
        "allocating": before(calls, calls.kind == ALLOCATE),
        "loading modules": named(calls, LOADING),
        "capturing graphs": named(calls, CAPTURING),
    }
