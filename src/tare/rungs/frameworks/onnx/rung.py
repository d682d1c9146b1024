"""ONNX Runtime: the model exported to ONNX, with the graph optimised and run by its own kernels."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tare.cases.case import Case
from tare.protocol.messages import Missing
from tare.rungs.base import Program, Rung
from tare.rungs.frameworks.program import BY_NAME
from tare.rungs.registry import rung
from tare.workloads.base import Workload

# What exporting and running need.
MODULES = ("onnx", "onnxscript", "onnxruntime")


@rung
class OnnxRuntime(Rung):
    name = "onnxruntime"
    summary = "exported to ONNX, run by ONNX Runtime"
    not_by_default = {"": BY_NAME}
    distribution = "onnxruntime"
    onnx_files = True

    def available(self, device_type: str) -> Missing | None:
        lacking = [module for module in MODULES if find_spec(module) is None]
        if lacking:
            return Missing(f"needs {', '.join(lacking)}", "tare env create onnxruntime")
        if device_type == "cuda" and not _has_cuda():
            return Missing("this ONNX Runtime has no CUDA provider", "pip install onnxruntime-gpu")
        return None

    def supports(self, case: Case, workload: Workload) -> str | None:  # noqa: ARG002
        if case.mode == "train":
            return "it runs inference only"
        if case.device_type not in ("cpu", "cuda"):
            return "it runs on the CPU and on CUDA devices"
        if case.precision.startswith("amp-"):
            return "an exported graph has no autocast: use bf16 or fp16"
        if case.precision == "bf16":
            return "its CPU kernels have no bfloat16, nor has NumPy, which gives it the batch: use fp32 or fp16"
        if case.feed != "device":
            return "it keeps its batch on the device: only --feed device"
        return None

    def optimisations(self, case: Case) -> Sequence[str]:  # noqa: ARG002
        return ("graph optimised by ONNX Runtime", "weights frozen")

    def prepare(self, workload: Workload, case: Case) -> Program:
        from tare.rungs.frameworks.onnx.program import OnnxProgram

        return OnnxProgram(workload, case)


def _has_cuda() -> bool:
    """Whether its package has that provider; asking the package would import it."""
    spec = find_spec("onnxruntime")
    folders = spec.submodule_search_locations if spec else None
    return any((Path(folder) / "capi" / "libonnxruntime_providers_cuda.so").exists() for folder in folders or ())
