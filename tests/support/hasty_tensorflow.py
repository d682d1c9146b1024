"""TensorFlow with a planted mistake: operations are dispatched to a thread, and nobody waits for them."""

from tare.cases.case import Case
from tare.rungs.base import Program, Rung
from tare.rungs.registry import rung
from tare.workloads.base import Workload


@rung
class HastyTensorFlow(Rung):
    name = "tensorflow-hasty"
    summary = "TensorFlow whose synchronisation does not wait"
    distribution = "tensorflow"

    def prepare(self, workload: Workload, case: Case) -> Program:
        from tare.rungs.frameworks.tensorflow.rung import prepare_process

        prepare_process(case)
        import tensorflow as tf

        tf.config.experimental.set_synchronous_execution(False)
        from tare.rungs.frameworks.tensorflow.program import TensorFlowProgram

        class Hasty(TensorFlowProgram):
            def synchronize(self) -> None: ...

        program: Program = Hasty(workload, case)
        program.overlaps = True
        return program
