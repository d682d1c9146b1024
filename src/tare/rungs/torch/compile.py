"""torch.compile: Dynamo captures the graph, Inductor generates kernels for it."""

from collections.abc import Sequence

from tare.cases.case import Case
from tare.rungs.base import Missing, Program, Rung
from tare.rungs.native.build import compiler
from tare.rungs.registry import rung, split_name
from tare.workloads.base import Workload

HIDDEN_KERNELS = "torch's profiler does not see Inductor's C++ kernels"


@rung
class Compile(Rung):
    name = "compile"
    summary = "torch.compile with Inductor, default mode"
    variants = {
        "reduce-overhead": "and its kernels replayed from CUDA graphs",
        "max-autotune": "and every kernel chosen by timing candidates",
    }
    not_by_default = {"max-autotune": "its preparation takes minutes; ask for compile:max-autotune"}
    caches = True
    solitary = frozenset({"max-autotune"})

    def available(self, device_type: str) -> Missing | None:
        if device_type == "cuda":
            try:
                import triton  # noqa: F401
            except ImportError:
                return Missing("Inductor needs Triton for CUDA", "pip install triton")
        elif device_type == "cpu" and not compiler():
            return Missing(
                "Inductor needs a C++ compiler", "install one (Debian: apt-get install g++), or set CXX"
            )
        return None

    def supports(self, case: Case, workload: Workload) -> str | None:  # noqa: ARG002
        if split_name(case.rung)[1] == "reduce-overhead" and case.device_type != "cuda":
            return "reduce-overhead is CUDA graphs, which need a CUDA device"
        return None

    def optimisations(self, case: Case) -> Sequence[str]:
        variant = split_name(case.rung)[1]
        found = ["operators fused by Inductor"]
        found += ["kernels searched"] if variant == "max-autotune" else []
        return [*found, "launches replayed"] if variant and case.device_type == "cuda" else found

    def counts(self, case: Case) -> dict[str, int]:
        """Graph breaks by Dynamo's own count, with the functions that it gave up. On a CPU, where no profiler
        sees a kernel, also the kernels that Inductor generated and its calls of libraries; a cached program has
        both."""
        from torch._dynamo.utils import counters
        from torch._inductor import metrics

        breaks = (*counters["graph_break"].values(), *counters["unimplemented"].values())
        figures = {"graph_breaks": sum(breaks)}
        if case.device_type == "cpu":
            figures["kernels"] = metrics.generated_kernel_count + counters["inductor"]["extern_calls"]
        return figures

    def prepare(self, workload: Workload, case: Case) -> Program:
        import torch

        from tare.rungs.torch.program import TorchProgram
        from tare.rungs.torch.vector_check import note_vector_checks

        program = TorchProgram(workload, case)
        note_vector_checks(program.notes)
        if case.device_type == "cpu":
            program.hides_kernels = HIDDEN_KERNELS
        mode = split_name(case.rung)[1] or None
        if program.trains:
            program.objective = torch.compile(program._objective, mode=mode)
        else:
            program.forward = torch.compile(program.model, mode=mode)
        plain = program.plain_step()
        if mode and case.device_type == "cuda":
            # Both modes replay CUDA graphs, whose outputs live until the next step is marked.
            begin = torch.compiler.cudagraph_mark_step_begin

            def step() -> object:
                begin()
                return plain()

            program.step = step
        else:
            program.step = plain
        return program
