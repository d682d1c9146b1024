"""torch.compile: Dynamo captures the graph, Inductor generates kernels for it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tare.cases.case import Case
from tare.protocol.messages import Missing
from tare.rungs.base import Program, Rung
from tare.rungs.native.toolchain import compiler
from tare.rungs.registry import rung, split_name
from tare.workloads.base import Workload

if TYPE_CHECKING:
    from tare.rungs.torch.program import TorchProgram

HIDDEN_KERNELS = "torch's profiler does not see Inductor's C++ kernels"
NOTE = (
    "its preparation asks the C++ compiler in every process which vector instructions it knows, for seconds; "
    "TORCHINDUCTOR_VEC_ISA_OK=1 leaves most of that out"
)


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
    whole_steps = True
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
        applied = ["operators fused by Inductor"]
        applied += ["kernels searched"] if variant == "max-autotune" else []
        return [*applied, "launches replayed"] if variant and case.device_type == "cuda" else applied

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

        program = inductor_program(workload, case)
        mode = split_name(case.rung)[1] or None
        if workload.is_step:
            program.step = plain = torch.compile(program.step, mode=mode)
        elif program.trains:
            program.objective = torch.compile(program._objective, mode=mode)
        else:
            program.forward = torch.compile(program.model, mode=mode)
        if not workload.is_step:
            program.step = plain = program.plain_step()
        if mode and case.device_type == "cuda":
            # Both modes replay CUDA graphs, whose outputs live until the next step is marked.
            begin = torch.compiler.cudagraph_mark_step_begin

            def step() -> object:
                begin()
                return plain()

            program.step = step
        return program


def inductor_program(workload: Workload, case: Case) -> "TorchProgram":
    """A TorchProgram for a rung whose kernels Inductor generates."""
    from tare.rungs.torch.whole_step import eager_program

    program = eager_program(workload, case)
    note_vector_checks(program.notes)
    if case.device_type == "cpu":
        program.hides_kernels = HIDDEN_KERNELS
    return program


def note_vector_checks(notes: list[str]) -> None:
    """Adds a note about a cost of Inductor if and when it arises: on x86-64 every process that generates or loads
    C++ tests the compiler with each kind of vector instructions that the processor has, and starts a Python that
    imports torch to load the result. Cached programs do not avoid it. docs/measurement.md has figures.

    There is no note where the variable that it names is set, or where this torch tests in another way."""
    from torch._inductor import config, cpu_vec_isa

    kind = cpu_vec_isa.VecISA
    check_build = getattr(kind, "check_build", None)
    if check_build is None or getattr(config.cpp, "vec_isa_ok", None) is not None:
        return

    def noted(self: Any, *args: Any) -> Any:
        if NOTE not in notes:
            notes.append(NOTE)
        return check_build(self, *args)

    kind.check_build = noted
