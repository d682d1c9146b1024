"""`tare.explain`: where the time of a callable goes, as `tare explain` says it for a workload."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.api.display import Displayed
from tare.api.measure import BUDGET, Measurement, measure
from tare.api.steps import CallableProgram, clock_of
from tare.findings.diagnosis import Diagnosis
from tare.findings.finding import Finding
from tare.system.scratch import scratch
from tare.trace.explanation import Explanation
from tare.trace.module_tree import ModuleNode
from tare.trace.regions import Region

if TYPE_CHECKING:
    from tare.report.view import View


@dataclass(frozen=True, repr=False)
class StepExplanation(Displayed):
    """`explanation` has the waterfall and the breakdown, `diagnosis` the findings and the tables of operators and
    kernels. Times are shares of the profiled step, taken of gross, which was measured without a profiler."""

    measurement: Measurement
    explanation: Explanation
    diagnosis: Diagnosis

    @property
    def breakdown(self) -> dict[str, float]:
        """The shares of a step by where they go; they add up to 1."""
        waterfall = self.explanation.waterfall
        return {segment.name: segment.ns / waterfall.gross for segment in waterfall.segments}

    @property
    def findings(self) -> list[Finding]:
        """What is inefficient, where, and what its remedy saves."""
        return self.diagnosis.findings

    @property
    def regions(self) -> list[Region]:
        """What `tare.stopwatch` and torch.profiler.record_function marked."""
        return self.explanation.regions

    @property
    def modules(self) -> ModuleNode | None:
        """Time, launches and memory as a tree of modules; None without stacks."""
        return self.diagnosis.modules

    def __repr__(self) -> str:
        return str(self)

    def view(self) -> "View":
        from tare.report.explain import explanation_view
        from tare.report.findings import findings_view

        view = explanation_view(self.explanation).add("note", *self.measurement.notes)
        return view.show(findings_view(self.diagnosis))


def explain(
    step: Callable[..., Any],
    /,
    *args: Any,
    stacks: bool = True,
    budget: float = BUDGET,
    device: Any = None,
    trace: str | Path | None = None,
    **kwargs: Any,
) -> StepExplanation:
    """Explains where the time of `step(*args, **kwargs)` goes, in this process.

    >>> import torch, tare
    >>> model, x = torch.nn.Linear(64, 64), torch.randn(8, 64)
    >>> def step():
    ...     with tare.stopwatch("forward"):
    ...         return model(x)
    >>> explained = tare.explain(step, budget=0.2, stacks=False)
    >>> [region.name for region in explained.regions]
    ['forward']
    >>> round(sum(explained.breakdown.values()), 6)
    1.0

    The step is first measured as by `tare.measure`, and then profiled by torch.profiler, a second time with
    `stacks` for the source lines of findings. A profiled process may stay slower: measure before you explain.
    There is no roofline, because the precision and the work of a callable are not known. `trace` keeps the trace
    in this file (.json.gz).
    """
    import torch

    from tare.commands.explain import explain_trace
    from tare.measure.environment import collect
    from tare.measure.peak_store import load_peaks
    from tare.trace.read import read
    from tare.worker.padding import padding
    from tare.worker.profiling import FEWEST_STEPS, MOST_STEPS, WANTED_S, host_time, record, shapes_leak

    measured = measure(step, *args, budget=budget, device=device, **kwargs)
    program = CallableProgram(step, args, kwargs)
    target = torch.device(measured.device)
    clock = clock_of(target)
    gross_s = measured.gross.mid
    steps = max(FEWEST_STEPS, min(MOST_STEPS, math.ceil(WANTED_S / max(gross_s, 1e-6))))
    marks: dict[str, Any] = {}
    if clock.overlaps:
        marks["host_ns"] = host_time(program.step, clock.synchronize)
    shapes = target.type != "cuda" or not shapes_leak(program.step, clock.synchronize, torch.cuda.memory_allocated)
    padded = padding(kwargs)
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        paths = [Path(trace) if trace else folder / "trace.json.gz", folder / "stacks.json.gz"]
        for path, with_stacks in zip(paths, (False, True) if stacks else (False,), strict=False):
            kept = {
                "tare_profiled": {**marks, "shapes": shapes, "stacks": with_stacks},
                "tare_recorded": {"gross_ns": round(gross_s * 1e9)},
                **({"tare_padding": padded} if padded else {}),
            }
            record(program.step, clock.synchronize, target.type, str(path), steps, with_stacks, kept, shapes)
        peaks = load_peaks(target.type, collect())
        explanation, diagnosis = explain_trace(
            read(paths[0]), program.name, peaks, stacks=read(paths[1]) if stacks else None
        )
    return StepExplanation(measured, explanation, diagnosis)
