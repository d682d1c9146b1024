"""CUDA graphs by hand: the eager step recorded once and replayed, inference and the whole training step."""

from collections.abc import Callable, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any

from tare.cases.case import Case
from tare.errors import Unsupported, first_line
from tare.protocol.messages import Missing
from tare.rungs.base import Program, Rung
from tare.rungs.registry import rung
from tare.workloads.base import Workload

# Libraries choose algorithms and allocate workspaces in the first steps, which cannot be captured.
STEPS_BEFORE_CAPTURE = 3


@rung
class CudaGraph(Rung):
    name = "cudagraph"
    summary = "the eager step captured in a CUDA graph and replayed"

    def available(self, device_type: str) -> Missing | None:
        import torch

        if device_type != "cuda" or not torch.cuda.is_available():
            return Missing("CUDA graphs need a CUDA device", "run on a machine with an NVIDIA GPU")
        return None

    def supports(self, case: Case, workload: Workload) -> str | None:  # noqa: ARG002
        return None if case.device_type == "cuda" else "CUDA graphs need a CUDA device"

    def optimisations(self, case: Case) -> Sequence[str]:  # noqa: ARG002
        return ("launches replayed",)

    def prepare(self, workload: Workload, case: Case) -> Program:
        from tare.rungs.torch.feeds import copy_into, copy_to
        from tare.rungs.torch.program import TorchProgram

        program = TorchProgram(workload, case, capturable=case.optimizer in ("adam", "adamw"))
        if case.optimizer in ("adam", "adamw"):
            program.notes.append("the optimizer is capturable: its step count is kept on the device")
        if case.feed == "device":
            program.step = _capture(program.step, program.device)
            return program
        static = copy_to(program.held, program.device)
        program.feed = lambda: static
        replay = _capture(program.plain_step(), program.device)

        def step() -> Any:
            copy_into(static, program.held, non_blocking=case.feed == "pinned")
            return replay()

        program.step = step
        return program


def _capture(step: Callable[[], Any], device: Any) -> Callable[[], Any]:
    import torch

    aside = torch.cuda.Stream(device)
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside):
        for _ in range(STEPS_BEFORE_CAPTURE):
            step()
    torch.cuda.current_stream(device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    errors: list[Exception] = []
    try:
        with torch.cuda.graph(graph):
            result = _keep_error(step, errors)
    except RuntimeError as error:
        # Ending a failed capture raises an error of its own, without the cause.
        raise why_not(errors[0] if errors else error) from None

    def replay() -> Any:
        graph.replay()
        return result

    return replay


def _keep_error(step: Callable[[], Any], errors: list[Exception]) -> Any:
    try:
        return step()
    except Exception as error:
        errors.append(error)
        raise


def why_not(error: Exception) -> Exception:
    """Unsupported, with the offending line, for a step that cannot be captured; any other error as it is."""
    if "captur" not in str(error):
        return error
    frames = extract_tb(error.__traceback__)
    where = f", at {Path(frames[-1].filename).name}:{frames[-1].lineno} ({frames[-1].line})" if frames else ""
    return Unsupported(f"no CUDA graph can hold this step: {first_line(error).removesuffix('.')}{where}")
