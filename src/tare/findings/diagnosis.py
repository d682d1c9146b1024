"""Everything that a trace tells besides the waterfall: findings, tables of operators and kernels, memory."""

import msgspec

from tare.findings.context import Context
from tare.findings.finding import Finding, find
from tare.records.work import Peaks
from tare.trace.kernel_table import Kernel, kernel_table
from tare.trace.memory import MemoryUse, memory_use
from tare.trace.module_tree import ModuleNode, module_tree
from tare.trace.operator_table import Operator, operator_table
from tare.trace.serving import Serving, serving
from tare.trace.tables import Trace
from tare.trace.windows import select_steps


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """`step_s` is the step that savings are shares of: gross, or the profiled step (`profiled`) where gross is
    unknown."""

    trace: str
    # The number of steps in which findings were searched, and the number that the tables cover.
    steps: int
    recorded_steps: int
    step_s: float
    profiled: bool
    findings: list[Finding]
    operators: list[Operator]
    kernels: list[Kernel]
    memory: MemoryUse | None
    # Where a recording has stacks.
    modules: ModuleNode | None
    # Where a language model generates.
    serving: Serving | None


def diagnose(
    trace: Trace,
    gross_s: float | None = None,
    peaks: Peaks | None = None,
    stacks: Trace | None = None,
    before: Trace | None = None,
) -> Diagnosis:
    """`stacks` is a second recording of the same program that has source lines; `before` an earlier version, for
    the rules that compare two traces."""
    trace, before = select_steps(trace), select_steps(before) if before is not None else None
    rates = {peak.name: peak.value for peak in peaks.peaks} if peaks else {}
    context = Context(trace, gross_s, rates)
    findings = find(context, Context(before) if before is not None else None)
    if stacks is not None:
        findings = with_lines(findings, find(Context(stacks, gross_s, rates)))
    return Diagnosis(
        trace=trace.source,
        steps=context.steps,
        recorded_steps=max(int(trace.steps.counted.sum()), 1),
        step_s=context.reported_step_s,
        profiled=gross_s is None,
        findings=findings,
        operators=operator_table(trace, counted=True),
        kernels=kernel_table(trace, counted=True),
        # The recording with stacks knows the modules.
        memory=memory_use(stacks if stacks is not None else trace),
        modules=module_tree(select_steps(stacks) if stacks is not None else trace),
        serving=serving(trace),
    )


def with_lines(findings: list[Finding], located: list[Finding]) -> list[Finding]:
    """The findings with the locations and remedies of a recording that kept stacks, where it has the same ones."""
    by_rule = {finding.rule: finding for finding in located if finding.locations}
    return [
        msgspec.structs.replace(finding, locations=line.locations, remedy=line.remedy)
        if (line := by_rule.get(finding.rule))
        else finding
        for finding in findings
    ]
