"""JAX with a planted mistake: steps are dispatched to a thread, and nobody waits for them."""

from tare.cases.case import Case
from tare.rungs.base import Program, Rung
from tare.rungs.registry import rung
from tare.workloads.base import Workload


@rung
class HastyJax(Rung):
    name = "jax-hasty"
    summary = "JAX whose synchronisation does not wait"

    def prepare(self, workload: Workload, case: Case) -> Program:
        from tare.rungs.frameworks.jax.rung import prepare_process

        prepare_process(case)
        import jax

        jax.config.update("jax_cpu_enable_async_dispatch", True)
        from tare.rungs.frameworks.jax.program import JaxProgram

        class Hasty(JaxProgram):
            def synchronize(self) -> None: ...

        program: Program = Hasty(workload, case)
        program.overlaps = True
        return program
