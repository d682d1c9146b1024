"""TorchScript: the model recorded or compiled into a graph that runs without Python between operators."""

import warnings
from collections.abc import Sequence
from typing import Any

from tare.cases.case import Case
from tare.rungs.base import Program, Rung
from tare.rungs.registry import rung, split_name
from tare.workloads.base import Workload


@rung
class TorchScript(Rung):
    name = "torchscript"
    summary = "traced (and frozen for inference), run by the TorchScript interpreter"
    variants = {"script": "compiled from the model's source instead of traced"}
    not_by_default = {"script": "most models do not script; ask for torchscript:script"}

    def optimisations(self, case: Case) -> Sequence[str]:
        return ("frozen, batch norm folded",) if case.mode == "infer" else ()

    def prepare(self, workload: Workload, case: Case) -> Program:
        import torch

        from tare.rungs.torch.outputs import Structure, TensorOutputs, is_plain
        from tare.rungs.torch.program import TorchProgram

        outputs: list[Any] = []
        program = TorchProgram(workload, case)
        with warnings.catch_warnings():
            # Deprecated in torch.
            warnings.simplefilter("ignore")
            if split_name(case.rung)[1] == "script":
                graph = torch.jit.script(program.model)
            else:
                # The trace would record a cached cast as a constant.
                with program.autocast(cache=False):
                    # The tracer's check runs the model twice, and would report the running statistics of a batch
                    # norm in training mode as a difference. Parity is checked instead.
                    model = TensorOutputs(program.model, outputs.append)
                    graph = torch.jit.trace(model, program.feed().args, check_trace=False)
            program.forward = graph if program.trains else torch.jit.freeze(graph)
        if program.trains and outputs and not is_plain(output := outputs.pop()):
            # The loss reads the model's own output, of which the trace returns only the tensors.
            structure = Structure(output)
            program.forward = lambda *args: structure.fill(graph(*args))
        program.step = program.plain_step()
        return program
