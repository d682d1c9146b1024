"""Everything beside the waterfall that a trace says: findings, the tables of operators and kernels, memory."""

import msgspec

from tare.findings.context import Scene
from tare.findings.find import find
from tare.findings.finding import Finding
from tare.records.work import Peaks
from tare.trace.kernel_table import Kernel, kernel_table
from tare.trace.memory import MemoryUse, memory_use
from tare.trace.operator_table import Operator, operator_table
from tare.trace.tables import Trace
from tare.trace.windows import usual


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """`step_s` is the step that gains are shares of; `profiled` where that is the profiled one, gross being
    unknown."""

    trace: str
    # How many steps findings were looked for in, and how many the tables cover.
    steps: int
    recorded_steps: int
    step_s: float
    profiled: bool
    findings: list[Finding]
    operators: list[Operator]
    kernels: list[Kernel]
    memory: MemoryUse | None


def diagnose(
    trace: Trace,
    gross_s: float | None = None,
    peaks: Peaks | None = None,
    stacks: Trace | None = None,
    before: Trace | None = None,
) -> Diagnosis:
    """`stacks` is a second recording of the same program that knows the lines; `before` an earlier one to
    compare."""
    trace, before = usual(trace), usual(before) if before is not None else None
    rates = {peak.name: peak.value for peak in peaks.peaks} if peaks else {}
    scene = Scene(trace, gross_s, rates)
    found = find(scene, Scene(before) if before is not None else None)
    if stacks is not None:
        found = with_lines(found, find(Scene(stacks, gross_s, rates)))
    return Diagnosis(
        trace=trace.source,
        steps=scene.steps,
        recorded_steps=max(int(trace.steps.counted.sum()), 1),
        step_s=scene.whole_s,
        profiled=gross_s is None,
        findings=found,
        operators=operator_table(trace, "device_self" if trace.has_device else "host_self", counted=True),
        kernels=kernel_table(trace, counted=True),
        # The recording with stacks knows the modules.
        memory=memory_use(stacks if stacks is not None else trace),
    )


def with_lines(found: list[Finding], named: list[Finding]) -> list[Finding]:
    """The same findings with the places of a recording that kept stacks: there the lines are known, also those
    that a remedy speaks of."""
    known = {finding.rule: finding for finding in named if finding.places}
    return [
        msgspec.structs.replace(finding, places=line.places, remedy=line.remedy)
        if (line := known.get(finding.rule))
        else finding
        for finding in found
    ]
