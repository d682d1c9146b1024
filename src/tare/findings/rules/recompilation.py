"""Dynamo compiles within a step that should be warm."""

from tare.findings import Context, Match, rule
from tare.trace.intervals import total


@rule(
    "Keep shapes and Python values steady, mark what varies (dynamic=True, mark_dynamic); "
    "TORCH_LOGS=recompiles says why."
)
def recompilation(context: Context) -> Match | None:
    """torch.compile compiles during a recorded step."""
    spans = context.marked(r"\(dynamo_timed\)$")
    # Within the only stretch it may be the first compilation (once-only-costs).
    if len(spans) == 0 or context.one_stretch:
        return None
    marks, rows = context.marks(r"compile_inner \(dynamo_timed\)$")
    return Match(
        summary=f"torch.compile compiles {context.times(max(len(rows), 1))}",
        evidence={
            "compilations_per_step": context.per_step(len(rows)),
            "compiling_s_per_step": total(spans) / context.steps / 1e9,
        },
        locations=context.locations(marks, rows),
        saving_s=context.saving(context.without(context.calls_during(spans), spans)),
        spans=spans,
    )
