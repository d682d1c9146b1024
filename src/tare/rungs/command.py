"""command: a program as it is, started anew for every step. `tare run -- COMMAND` registers it; it is no part of a
ladder."""

from tare.cases.case import Case
from tare.rungs.base import Program, Rung
from tare.workloads.base import Workload
from tare.workloads.commands import COMMAND, is_command


class CommandRung(Rung):
    name = COMMAND
    summary = "a command: wall time, memory and CPU time of whole processes"
    # Nothing is prepared, so that nothing is gained by waiting at the measurement gate.
    solitary = frozenset({""})

    def supports(self, case: Case, workload: Workload) -> str | None:  # noqa: ARG002
        return None if is_command(workload.name) else f"{workload.name} is not a command"

    def prepare(self, workload: Workload, case: Case) -> Program:
        raise TypeError(f"{workload.name} on {case.rung} is measured by tare.worker.command")
